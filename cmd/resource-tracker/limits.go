package main

import "C" // compiles limits.c
