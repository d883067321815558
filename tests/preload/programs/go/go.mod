module drawbridge/tests/preload/programs

go 1.26
