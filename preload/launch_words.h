#pragma once
/* Words of a share's limits for assembler; wrap_launch.cpp compares them with abi.h. */
#define LAUNCH_ALL_CORES 1000
#define LAUNCH_CORE_PERMILLE 144
#define LAUNCH_PAUSED_UNTIL 176
