// What malloc does with memory that is free again.
#pragma once

namespace psgd {

// While one lives, malloc keeps up to 1 GiB for later in place of giving it back to the system: the
// messages of a step are as large as the model, and the system clears each page that it gives
// again. The last one gives back what is free. From then on malloc keeps up to 64 MiB, as it does
// by itself once a program has freed a block of 32 MiB.
//
// The keeper changes nothing if the environment sets MALLOC_TRIM_THRESHOLD_ or
// MALLOC_MMAP_THRESHOLD_, or the same in GLIBC_TUNABLES. Thread-safe.
class FreedMemoryKeeper {
 public:
  FreedMemoryKeeper();
  ~FreedMemoryKeeper();
  FreedMemoryKeeper(const FreedMemoryKeeper&) = delete;
  FreedMemoryKeeper& operator=(const FreedMemoryKeeper&) = delete;

 private:
  const bool keeps_;
};

}  // namespace psgd
