// Marks functions that CUDA kernels call, too: PS_HD float Half(float x) { return x / 2; }
#pragma once

#ifdef __CUDACC__
#define PS_HD __host__ __device__
#else
#define PS_HD
#endif
