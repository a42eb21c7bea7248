// Philox4x32-10 (common/philox.h) for vectors. Part of kernels.cc.
//
// A counter lives in a 64-bit lane. Each of its four words is in the low half of a lane of its own
// vector. Multiplications read only low halves, so the upper halves need no cleaning. Counters are
// dealt to lanes so that two interleavings at the end put the words in element order.
#include "common/philox.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

class PhiloxVectors {
 public:
  using Vector = hn::Vec<Unsigned>;
  static constexpr int kRounds = 10;
  static constexpr size_t kCounters = kWidth / 2;  // in one vector

  // Words of 2 * kWidth elements in order: kWidth in each vector.
  struct Pair {
    Vector low;
    Vector high;
  };

  PhiloxVectors(PhiloxKey key, uint64_t step)
      : first_(Times(kSecond, static_cast<uint32_t>(step))),
        first_c0_(static_cast<uint32_t>(first_ >> 32) ^ key.low),
        second_(Times(kFirst, first_c0_)) {
    for (int r = 0; r < kRounds; ++r) {
      key_low_[r] = key.low + static_cast<uint32_t>(r) * 0x9E3779B9u;
      key_high_[r] = key.high + static_cast<uint32_t>(r) * 0xBB67AE85u;
    }
    // In rounds 0 and 1 only the counter differs from lane to lane. The rest is computed here.
    key_high_[0] ^= static_cast<uint32_t>(step >> 32);
    key_low_[1] ^= static_cast<uint32_t>(first_);
    key_high_[1] ^= static_cast<uint32_t>(second_ >> 32);
    for (size_t lane = 0; lane < kCounters; ++lane) {
      offset_[2 * lane] = static_cast<uint32_t>(lane / 2 + (lane % 2) * (kCounters / 2));
      offset_[2 * lane + 1] = 0;
    }
  }

  // Draws the words of counters `counter` to counter + 2 * kCounters - 1, which are below 2^32. Two
  // chains at once hide the latency of the multiplications.
  HWY_INLINE void Draw(uint32_t counter, Pair (&out)[2]) const {
    const Unsigned d;
    const auto first = hn::Set(d, kFirst), second = hn::Set(d, kSecond);
    Vector c0[2], c1[2], c2[2], c3[2];
    for (uint32_t s = 0; s < 2; ++s) {
      const Vector counters = hn::Add(hn::Load(d, offset_), hn::Set(d, counter + s * kCounters));
      const auto p0 = hn::MulEven(counters, first);
      c2[s] = hn::Xor(High(p0), hn::Set(d, key_high_[0]));
      const auto p1 = hn::MulEven(c2[s], second);
      c0[s] = hn::Xor(High(p1), hn::Set(d, key_low_[1]));
      c1[s] = hn::BitCast(d, p1);
      c2[s] = hn::Xor(hn::BitCast(d, p0), hn::Set(d, key_high_[1]));
      c3[s] = hn::Set(d, static_cast<uint32_t>(second_));
    }
    for (int r = 2; r < kRounds; ++r) {
      for (size_t s = 0; s < 2; ++s) {
        const auto p0 = hn::MulEven(c0[s], first);
        const auto p1 = hn::MulEven(c2[s], second);
        c0[s] = hn::Xor3(High(p1), c1[s], hn::Set(d, key_low_[r]));
        c2[s] = hn::Xor3(High(p0), c3[s], hn::Set(d, key_high_[r]));
        c1[s] = hn::BitCast(d, p1);
        c3[s] = hn::BitCast(d, p0);
      }
    }
    for (size_t s = 0; s < 2; ++s) {
      const auto low = Join(c0[s], c1[s]);
      const auto high = Join(c2[s], c3[s]);
      out[s].low = hn::BitCast(d, hn::InterleaveLower(low, high));
      out[s].high = hn::BitCast(d, hn::InterleaveUpper(Wide(), low, high));
    }
  }

 private:
  using Wide = hn::RepartitionToWide<Unsigned>;
  static constexpr uint32_t kFirst = 0xD2511F53u;  // Philox's two multipliers
  static constexpr uint32_t kSecond = 0xCD9E8D57u;

  static uint64_t Times(uint32_t a, uint32_t b) { return static_cast<uint64_t>(a) * b; }

  static HWY_INLINE Vector High(hn::Vec<Wide> product) {
    return hn::BitCast(Unsigned(), hn::ShiftRight<32>(product));
  }
  // 64-bit lanes, each with a word of `high` above a word of `low`.
  static HWY_INLINE hn::Vec<Wide> Join(Vector low, Vector high) {
    const auto above = hn::ShiftLeft<32>(hn::BitCast(Wide(), high));
    return hn::BitCast(Wide(), hn::OddEven(hn::BitCast(Unsigned(), above), low));
  }

  HWY_ALIGN uint32_t offset_[kWidth];
  const uint64_t first_;     // the product of round 0 that is the same in all lanes,
  const uint32_t first_c0_;  // word 0 after that product,
  const uint64_t second_;    // and the product of that word in round 1
  uint32_t key_low_[kRounds];
  uint32_t key_high_[kRounds];
};

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
