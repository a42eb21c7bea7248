#include "common/bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace psgd {
namespace {

std::vector<std::byte> Pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

TEST(Bytes, CopyOfIsIndependent) {
  auto source = Pattern(10);
  const Bytes copy = Bytes::CopyOf(source);
  source[3] = std::byte{99};
  EXPECT_EQ(copy.size(), 10u);
  EXPECT_EQ(copy.data()[3], std::byte{21});
}

TEST(Bytes, AdoptKeepsTheMemory) {
  auto source = Pattern(100);
  const std::byte* memory = source.data();
  const Bytes adopted = Bytes::Adopt(std::move(source));
  EXPECT_EQ(adopted.data(), memory);
}

TEST(Bytes, APartKeepsTheWholeAlive) {
  Bytes part;
  {
    const Bytes whole = Bytes::Adopt(Pattern(100));
    part = whole.Sub(50, 10);
    EXPECT_EQ(part.owner(), whole.owner());
  }
  EXPECT_EQ(part.size(), 10u);
  EXPECT_EQ(part.data()[0], static_cast<std::byte>(50 * 7));
}

TEST(Bytes, EmptyIsEmpty) {
  EXPECT_TRUE(Bytes().empty());
  EXPECT_TRUE(Bytes::CopyOf({}).empty());
}

TEST(BufferPool, GivesAlignedMemoryAndTakesItBack) {
  BufferPool pool(1 << 20);
  std::byte* first = nullptr;
  {
    const auto buffer = pool.Take(5000);
    first = buffer.get();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    std::memset(first, 1, 5000);
    EXPECT_EQ(pool.free_bytes(), 0u);
  }
  EXPECT_EQ(pool.free_bytes(), 5056u);
  // A size that rounds to the same capacity gets the same memory.
  EXPECT_EQ(pool.Take(5056).get(), first);
}

TEST(BufferPool, BuffersAreLittleLargerThanAskedFor) {
  for (const size_t size : {4100u, 8188u, 2u << 20, (2u << 20) + 4, 2'876'588u, (4u << 20) - 4}) {
    BufferPool pool(8u << 20);
    (void)pool.Take(size);
    EXPECT_GE(pool.free_bytes(), size);
    EXPECT_LE(pool.free_bytes(), size + size / 50);
  }
}

TEST(BufferPool, ABufferThatIsLittleTooLargeIsTakenAgain) {
  BufferPool pool(1 << 20);
  std::byte* const first = pool.Take(10000).get();
  EXPECT_EQ(pool.Take(9500).get(), first);
  EXPECT_EQ(pool.free_bytes(), 10112u) << "it keeps its own size";
  const auto small = pool.Take(5000);
  EXPECT_EQ(pool.free_bytes(), 10112u) << "half of the buffer would be lost";
}

TEST(BufferPool, KeepsNoMoreThanAskedFor) {
  BufferPool pool(8192);
  auto one = pool.Take(8192);
  auto two = pool.Take(8192);
  one.reset();
  two.reset();
  EXPECT_EQ(pool.free_bytes(), 8192u);
}

TEST(BufferPool, BuffersOutliveThePool) {
  std::shared_ptr<std::byte[]> buffer;
  {
    BufferPool pool(1 << 20);
    buffer = pool.Take(100);
  }
  std::memset(buffer.get(), 1, 100);
  EXPECT_EQ(buffer[99], std::byte{1});
}

TEST(BufferPool, ManyThreads) {
  BufferPool pool(1 << 16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        const size_t size = 4096u << (i % 3);
        const auto buffer = pool.Take(size);
        std::memset(buffer.get(), t, size);
        EXPECT_EQ(buffer[size - 1], static_cast<std::byte>(t));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(pool.free_bytes(), size_t{1} << 16);
}

TEST(Checksum, PiecesAreAsTheWhole) {
  const auto bytes = Pattern(1000);
  const ByteSpan span(bytes);
  for (size_t cut : {0u, 1u, 240u, 999u, 1000u}) {
    Checksum sum;
    sum.Add(span.first(cut));
    sum.Add(span.subspan(cut));
    EXPECT_EQ(sum.Value(), ChecksumOf(span)) << cut;
  }
}

TEST(Checksum, KnownAnswerAndEveryBitCounts) {
  EXPECT_EQ(ChecksumOf({}), 0x2d06800538d394c2u);  // XXH3-64 of no bytes, from its specification
  auto bytes = Pattern(64);
  const uint64_t before = ChecksumOf(bytes);
  for (size_t bit = 0; bit < 512; bit += 37) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(ChecksumOf(bytes), before) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  EXPECT_EQ(ChecksumOf(bytes), before);
}

}  // namespace
}  // namespace psgd
