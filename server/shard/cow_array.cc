#include "server/shard/cow_array.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace psgd {

// One buffer, and the number of references from Share that still live.
//
// shared_ptr::use_count is a relaxed load: seeing 1 does not order the last reader's reads before
// our writes. So the buffer has its own count: a dropped reference decrements it with release, and
// the owner reads it with acquire. A read of 0 therefore happens after everything that every reader
// did.
struct CowBuffer {
  std::shared_ptr<std::byte[]> memory;
  std::atomic<size_t> readers{0};

  float* values() const { return reinterpret_cast<float*>(memory.get()); }
};

namespace {

std::shared_ptr<CowBuffer> NewBuffer(BufferPool* pool, size_t size) {
  auto buffer = std::make_shared<CowBuffer>();
  buffer->memory = pool->Take(size * sizeof(float));
  return buffer;
}

}  // namespace

CowArray::CowArray(BufferPool* pool, size_t size)
    : pool_(pool), size_(size), buffer_(NewBuffer(pool, size)) {
  values_ = buffer_->values();
  std::fill_n(values_, size_, 0.0f);
}

Bytes CowArray::Share() const {
  if (buffer_ == nullptr) return {};
  buffer_->readers.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<const void> reference(values_, [buffer = buffer_](const void*) {
    buffer->readers.fetch_sub(1, std::memory_order_release);
  });
  return Bytes(std::move(reference), AsBytes(read()));
}

bool CowArray::shared() const {
  return buffer_ != nullptr && buffer_->readers.load(std::memory_order_acquire) != 0;
}

CowArray::Update CowArray::BeginUpdate() {
  Update update;
  update.array_ = this;
  update.in_ = values_;
  update.out_ = values_;
  if (shared()) {
    update.fresh_ = NewBuffer(pool_, size_);
    update.out_ = update.fresh_->values();
  }
  return update;
}

void CowArray::Update::Commit() {
  if (fresh_ == nullptr) return;
  array_->values_ = fresh_->values();
  array_->buffer_ = std::move(fresh_);
  in_ = out_;
}

std::span<float> CowArray::Writable() {
  Update update = BeginUpdate();
  if (!update.in_place()) {
    std::memcpy(update.out(), update.in(), size_ * sizeof(float));
    update.Commit();
  }
  return {values_, size_};
}

}  // namespace psgd
