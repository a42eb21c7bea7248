// The bytes of a data-plane message: a fixed prelude, a protobuf header, raw payloads.
// docs/wire.md has the layout. The constants here are part of it: do not change one without a new
// protocol version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "net/message.h"

namespace psgd {

constexpr uint32_t kWireMagic = 0x44475350;  // "PSGD", little-endian
constexpr uint16_t kProtocolVersion = 2;
constexpr size_t kPreludeBytes = 32;
// Byte offsets in the prelude.
constexpr size_t kMagicAt = 0;        // uint32
constexpr size_t kVersionAt = 4;      // uint16
constexpr size_t kReservedAt = 6;     // uint16, zero
constexpr size_t kHeaderBytesAt = 8;  // uint32
constexpr size_t kReserved2At = 12;   // uint32, zero
constexpr size_t kBodyBytesAt = 16;   // uint64
constexpr size_t kChecksumAt =
    24;  // uint64, XXH3-64 of all other bytes of the message; in shared memory 0

constexpr size_t kMaxHeaderBytes = 2u << 20;
constexpr size_t kMaxPayloads = 65536;

// How a sender cuts a message into frames: smaller payloads share a frame, larger payloads are sent
// from where they lie. Receivers do not depend on this value.
constexpr size_t kCoalesceBelow = 16u << 10;
// Received payloads are aligned to this, whatever frame they came in.
constexpr size_t kPayloadAlignment = 8;

// frames[0] begins with prelude and header; no payload crosses from one frame to the next.
struct EncodedMessage {
  std::vector<Bytes> frames;
  size_t size = 0;  // of all frames
};

// Whether a message has a checksum. In memory that two processes share it needs none, because
// nothing damages it there.
enum class Integrity { kChecksum, kMemory };

// Returns INVALID_ARGUMENT, naming the limit, when the message is larger than the format or
// `max_message_bytes` allows. Payloads of kCoalesceBelow bytes and more are shared, not copied.
absl::StatusOr<EncodedMessage> EncodeMessage(const Message& message, size_t max_message_bytes,
                                             Integrity integrity = Integrity::kChecksum);

// Returns the size that EncodeMessage would give, after the same checks.
absl::StatusOr<size_t> EncodedSize(const Message& message, size_t max_message_bytes);

// Reads the output of EncodeMessage, from its frames or from one contiguous piece. Trusts nothing:
// an error says which rule the bytes broke. Payloads share the frames' owners unless misaligned.
absl::StatusOr<Message> DecodeMessage(std::span<const Bytes> frames, size_t max_message_bytes,
                                      Integrity integrity = Integrity::kChecksum);

}  // namespace psgd
