// Replaces CUB's header on a host.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/fakes/emulated_cuda/runtime.h"

namespace cub {

struct DeviceRadixSort {
  // A stable sort by the bits [begin_bit, end_bit) of a key.
  template <typename Key, typename Value, typename Count>
  static cudaError_t SortPairs(void* memory, size_t& bytes, const Key* keys_in, Key* keys_out,
                               const Value* values_in, Value* values_out, Count count,
                               int begin_bit, int end_bit, cudaStream_t stream) {
    if (memory == nullptr) {
      bytes = 1;
      return cudaSuccess;
    }
    psgd::emulated::Put(stream, [=] {
      const auto bits = [&](size_t at) {
        return static_cast<uint64_t>(keys_in[at]) >> begin_bit &
               ((uint64_t{1} << (end_bit - begin_bit)) - 1);
      };
      std::vector<size_t> order(static_cast<size_t>(count));
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, {}, bits);
      for (size_t i = 0; i < order.size(); ++i) {
        keys_out[i] = keys_in[order[i]];
        values_out[i] = values_in[order[i]];
      }
    });
    return cudaSuccess;
  }
};

}  // namespace cub
