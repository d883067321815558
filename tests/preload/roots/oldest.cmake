# Builds for the oldest glibc that the preload library promises to run on, and for other processors, with the headers and
# stubs of glibc that come with the Python package ziglang.
#   cmake --toolchain tests/preload/roots/oldest.cmake -DROOTS_PYTHON=PYTHON -DROOTS_PROCESSOR=x86_64|aarch64
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ROOTS_PYTHON ROOTS_PROCESSOR)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${ROOTS_PROCESSOR})
set(oldest_glibc -target ${ROOTS_PROCESSOR}-linux-gnu.2.17)
set(CMAKE_C_COMPILER ${ROOTS_PYTHON} -m ziglang cc ${oldest_glibc})
set(CMAKE_CXX_COMPILER ${ROOTS_PYTHON} -m ziglang c++ ${oldest_glibc})
set(CMAKE_ASM_COMPILER ${ROOTS_PYTHON} -m ziglang cc ${oldest_glibc})
set(CMAKE_AR /usr/bin/llvm-ar-14)
set(CMAKE_RANLIB /usr/bin/llvm-ranlib-14)
