// The main of one program; the build says which.
#include "apps/program_mains.h"

int main(int argc, char** argv) { return PSGD_MAIN(argc, argv); }
