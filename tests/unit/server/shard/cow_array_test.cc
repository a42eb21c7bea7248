#include "server/shard/cow_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "common/bounded_queue.h"

namespace psgd {
namespace {

float ValueOf(const Bytes& bytes, size_t i) {
  float value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

void FillThroughUpdate(CowArray& array, float value) {
  CowArray::Update update = array.BeginUpdate();
  std::fill_n(update.out(), array.size(), value);
  update.Commit();
}

TEST(CowArrayTest, StartsAsAlignedZeros) {
  BufferPool pool(1 << 20);
  CowArray array(&pool, 1000);
  EXPECT_EQ(array.size(), 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.read().data()) % 64, 0u);
  EXPECT_TRUE(
      std::all_of(array.read().begin(), array.read().end(), [](float v) { return v == 0; }));
  EXPECT_FALSE(array.shared());
}

TEST(CowArrayTest, UpdatesInPlaceWhileNobodyReads) {
  BufferPool pool(1 << 20);
  CowArray array(&pool, 8);
  const float* before = array.read().data();
  CowArray::Update update = array.BeginUpdate();
  EXPECT_TRUE(update.in_place());
  EXPECT_EQ(update.in(), update.out());
  update.Commit();
  FillThroughUpdate(array, 2);
  EXPECT_EQ(array.read().data(), before);
  EXPECT_EQ(array.read()[7], 2);
}

TEST(CowArrayTest, AReferenceNeverChanges) {
  BufferPool pool(1 << 20);
  CowArray array(&pool, 8);
  FillThroughUpdate(array, 1);
  const Bytes first = array.Share();
  const Bytes part = first.Sub(4, 8);
  EXPECT_TRUE(array.shared());
  EXPECT_EQ(first.data(), reinterpret_cast<const std::byte*>(array.read().data()));
  FillThroughUpdate(array, 2);
  EXPECT_FALSE(array.shared()) << "the fresh buffer has no readers";
  const Bytes second = array.Share();
  array.Writable()[0] = 3;
  EXPECT_EQ(ValueOf(first, 0), 1);
  EXPECT_EQ(ValueOf(part, 1), 1);
  EXPECT_EQ(ValueOf(second, 0), 2);
  EXPECT_EQ(array.read()[0], 3);
  EXPECT_EQ(array.read()[1], 2) << "Writable copies what is there";
}

TEST(CowArrayTest, IsUnsharedOnlyWhenTheLastCopyGoes) {
  BufferPool pool(1 << 20);
  CowArray array(&pool, 8);
  std::optional<Bytes> one = array.Share();
  std::optional<Bytes> two = one;
  std::optional<Bytes> three = array.Share();
  one.reset();
  EXPECT_TRUE(array.shared());
  two.reset();
  EXPECT_TRUE(array.shared());
  three.reset();
  EXPECT_FALSE(array.shared());
}

TEST(CowArrayTest, AnUpdateThatIsNotCommittedLeavesTheArrayAlone) {
  BufferPool pool(1 << 20);
  CowArray array(&pool, 8);
  const Bytes held = array.Share();
  {
    CowArray::Update update = array.BeginUpdate();
    EXPECT_FALSE(update.in_place());
    std::fill_n(update.out(), 8, 9.0f);
  }
  EXPECT_EQ(array.read()[0], 0);
}

TEST(CowArrayTest, ReferencesOutliveTheArrayAndBuffersReturnToThePool) {
  BufferPool pool(1 << 20);
  Bytes held;
  {
    CowArray array(&pool, 4096);
    FillThroughUpdate(array, 5);
    held = array.Share();
  }
  EXPECT_EQ(ValueOf(held, 4095), 5);
  EXPECT_EQ(pool.free_bytes(), 0u);
  held = {};
  EXPECT_EQ(pool.free_bytes(), 4096 * sizeof(float));
}

TEST(CowArrayTest, EmptyArraysShareNothing) {
  CowArray array;
  EXPECT_EQ(array.size(), 0u);
  EXPECT_FALSE(array.shared());
  EXPECT_TRUE(array.Share().empty());
  array.BeginUpdate().Commit();
}

// The shard updates while other threads read and drop references: every reference shows the values
// of one version throughout. Run under TSan, this is what proves the ordering in shared().
TEST(CowArrayTest, ReadersOnOtherThreadsNeverSeeAWrite) {
  constexpr size_t kSize = 512;
  constexpr int kVersions = 4000;
  BufferPool pool(1 << 20);
  CowArray array(&pool, kSize);
  BoundedQueue<std::pair<float, Bytes>> queue(4);
  std::atomic<int> torn{0};
  auto read = [&] {
    while (auto item = queue.Pop()) {
      for (size_t i = 0; i < kSize; ++i) {
        if (ValueOf(item->second, i) != item->first) ++torn;
      }
    }
  };
  std::thread first(read), second(read);
  int in_place = 0;
  for (int version = 1; version <= kVersions; ++version) {
    CowArray::Update update = array.BeginUpdate();
    in_place += update.in_place();
    for (size_t i = 0; i < kSize; ++i) update.out()[i] = static_cast<float>(version);
    update.Commit();
    if (version % 3 == 0) continue;
    while (!queue.TryPush({static_cast<float>(version), array.Share()})) std::this_thread::yield();
  }
  queue.Close();
  first.join();
  second.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(in_place, 0);
  EXPECT_FALSE(array.shared());
}

}  // namespace
}  // namespace psgd
