// Floats that are updated in place while nobody else reads them, and out of place otherwise. So
// pull replies, checkpoints and images reference them without a copy and never see a change.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/bytes.h"

namespace psgd {

// Owned by one thread; only the Bytes that Share hands out may be used and dropped on any thread,
// even after the array is gone.
class CowArray {
 public:
  // An update under way. When nobody shares the array, in == out and the array changes as `out` is
  // written. Otherwise `out` is another buffer with undefined contents: the caller writes EVERY
  // element and then commits; without Commit the array stays as it was.
  class Update {
   public:
    const float* in() const { return in_; }
    float* out() const { return out_; }
    bool in_place() const { return fresh_ == nullptr; }
    // REQUIRES: the array lives and has not been moved since BeginUpdate.
    void Commit();

   private:
    friend class CowArray;
    CowArray* array_ = nullptr;
    const float* in_ = nullptr;
    float* out_ = nullptr;
    std::shared_ptr<struct CowBuffer> fresh_;
  };

  CowArray() = default;
  // `size` zeros, aligned to 64 bytes. `pool` must outlive the array, but not the Bytes from Share.
  CowArray(BufferPool* pool, size_t size);
  CowArray(CowArray&&) = default;
  CowArray& operator=(CowArray&&) = default;

  size_t size() const { return size_; }
  std::span<const float> read() const { return {values_, size_}; }
  // A reference to the present values. They do not change while any copy of the reference lives.
  Bytes Share() const;
  // Some Bytes from Share may still be read.
  bool shared() const;

  Update BeginUpdate();
  // All values, to be changed in place. Shared values are copied first.
  std::span<float> Writable();

 private:
  BufferPool* pool_ = nullptr;
  size_t size_ = 0;
  float* values_ = nullptr;
  std::shared_ptr<CowBuffer> buffer_;
};

}  // namespace psgd
