/* Stands for the driver's file when the front is linked (CMakeLists.txt); nothing of it is in the front but its name. */
extern const char drawbridge_driver_place;
const char drawbridge_driver_place = 0;
