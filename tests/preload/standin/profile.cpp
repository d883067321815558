// The CUDA version that a build of the stand-in's libcuda is for.
#include "tests/preload/standin/driver.hpp"

namespace standin {

const int profile = STANDIN_PROFILE;

}  // namespace standin
