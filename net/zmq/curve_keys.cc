#include <zmq.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "net/transport_security.h"

namespace psgd {
namespace {
constexpr size_t kKeyCharacters = 40;
constexpr size_t kKeyBytes = 32;
using KeyText = std::array<char, kKeyCharacters + 1>;
}  // namespace

CurveKeys MakeCurveKeys() {
  KeyText public_key{};
  KeyText secret_key{};
  // This fails only if ZeroMQ was built without CURVE. Empty keys never authenticate.
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) return {};
  return {public_key.data(), secret_key.data()};
}

bool IsCurveKey(absl::string_view text) {
  std::array<uint8_t, kKeyBytes> key{};
  return text.size() == kKeyCharacters &&
         zmq_z85_decode(key.data(), std::string(text).c_str()) != nullptr &&
         std::any_of(key.begin(), key.end(), [](uint8_t byte) { return byte != 0; });
}

// A fresh secret key is a good random number.
std::string MakeToken() { return MakeCurveKeys().secret_key; }

}  // namespace psgd
