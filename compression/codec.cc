#include "compression/codec.h"
