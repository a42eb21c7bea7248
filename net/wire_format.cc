#include "net/wire_format.h"

#include <google/protobuf/io/coded_stream.h>

#include <utility>

namespace psgd {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Headers nest two levels deep. Deeper nesting comes from unknown groups that a hostile peer piled
// up.
constexpr int kMaxNesting = 8;
constexpr uint32_t kPayloadSizesTag = DataHeader::kPayloadSizesFieldNumber << 3 | 2;

// The sizes that the encoder needs before it writes a byte.
struct Layout {
  size_t fields = 0;  // bytes of the header without payload_sizes
  size_t sizes = 0;   // bytes of the packed values of payload_sizes
  size_t header = 0;  // both, with the tag and length of payload_sizes
  size_t body = 0;
  size_t total() const { return kPreludeBytes + header + body; }
};

// REQUIRES: header.payload_sizes is empty.
absl::StatusOr<Layout> LayOut(const DataHeader& header, const std::vector<Bytes>& payloads,
                              size_t max_message_bytes) {
  if (payloads.size() > kMaxPayloads) {
    return InvalidArgumentError("a message of ", payloads.size(), " payloads; the format allows ",
                                kMaxPayloads);
  }
  Layout layout;
  layout.fields = header.ByteSizeLong();
  for (const Bytes& payload : payloads) {
    if (payload.size() > UINT32_MAX) {
      return InvalidArgumentError("a payload of ", payload.size(), " bytes; the format allows ",
                                  UINT32_MAX);
    }
    layout.sizes += CodedOutputStream::VarintSize32(static_cast<uint32_t>(payload.size()));
    layout.body += payload.size();
  }
  layout.header = layout.fields;
  if (!payloads.empty()) {
    layout.header += CodedOutputStream::VarintSize32(kPayloadSizesTag) +
                     CodedOutputStream::VarintSize32(static_cast<uint32_t>(layout.sizes)) +
                     layout.sizes;
  }
  if (layout.header > kMaxHeaderBytes) {
    return InvalidArgumentError("a header of ", layout.header, " bytes; the format allows ",
                                kMaxHeaderBytes);
  }
  if (layout.total() > max_message_bytes) {
    return InvalidArgumentError("a message of ", layout.total(), " bytes; this endpoint allows ",
                                max_message_bytes,
                                ": use smaller slices or raise max_message_bytes");
  }
  return layout;
}

// Writes the fields, then payload_sizes as a packed field. Protobuf allows fields in any order, so
// the caller's header is not copied to fill in payload_sizes.
void WriteHeader(const DataHeader& header, const std::vector<Bytes>& payloads, const Layout& layout,
                 std::byte* to) {
  auto* out = reinterpret_cast<uint8_t*>(to);
  out = header.SerializeWithCachedSizesToArray(out);
  if (payloads.empty()) return;
  out = CodedOutputStream::WriteVarint32ToArray(kPayloadSizesTag, out);
  out = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(layout.sizes), out);
  for (const Bytes& payload : payloads) {
    out = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(payload.size()), out);
  }
}

uint64_t MessageChecksum(std::span<const Bytes> frames) {
  Checksum checksum;
  checksum.Add(frames[0].span().first(kChecksumAt));
  checksum.Add(frames[0].span().subspan(kPreludeBytes));
  for (const Bytes& frame : frames.subspan(1)) checksum.Add(frame.span());
  return checksum.Value();
}

// Returns the header without payload_sizes, which the encoder writes. `storage` holds the copy if
// one is needed.
const DataHeader& WithoutSizes(const DataHeader& header, DataHeader* storage) {
  if (header.payload_sizes_size() == 0) return header;
  *storage = header;
  storage->clear_payload_sizes();
  return *storage;
}

// Collects frames, letting small payloads share one.
class FrameBuilder {
 public:
  explicit FrameBuilder(std::vector<std::byte> first) : open_(std::move(first)) {}

  void Add(const Bytes& payload) {
    if (payload.size() < kCoalesceBelow) {
      open_.insert(open_.end(), payload.span().begin(), payload.span().end());
      return;
    }
    Close();
    frames_.push_back(payload);
  }

  // Returns the frames in order, and the first frame's bytes, which the caller completes.
  std::pair<std::vector<Bytes>, std::byte*> Finish() {
    Close();
    return {std::move(frames_), first_};
  }

 private:
  void Close() {
    if (open_.empty()) return;
    if (frames_.empty()) first_ = open_.data();
    frames_.push_back(Bytes::Adopt(std::move(open_)));
    open_ = {};
  }

  std::vector<std::byte> open_;
  std::vector<Bytes> frames_;
  std::byte* first_ = nullptr;
};

struct Prelude {
  uint32_t header_bytes;
  uint64_t body_bytes;
  uint64_t checksum;
};

absl::StatusOr<Prelude> ReadPrelude(const Bytes& first, size_t total) {
  const std::byte* at = first.data();
  if (first.size() < kPreludeBytes) {
    return InvalidArgumentError("the first frame has ", first.size(), " bytes, the prelude alone ",
                                kPreludeBytes);
  }
  if (LoadField<uint32_t>(at + kMagicAt) != kWireMagic) {
    return absl::InvalidArgumentError(
        "wrong magic: not a psgd message; does something else connect to this port?");
  }
  if (const auto version = LoadField<uint16_t>(at + kVersionAt); version != kProtocolVersion) {
    return InvalidArgumentError("the peer speaks protocol version ", version,
                                ", this side version ", kProtocolVersion,
                                ": run the same release on both");
  }
  if (LoadField<uint16_t>(at + kReservedAt) != 0 || LoadField<uint32_t>(at + kReserved2At) != 0) {
    return absl::InvalidArgumentError("reserved bytes of the prelude are not zero");
  }
  const Prelude prelude{.header_bytes = LoadField<uint32_t>(at + kHeaderBytesAt),
                        .body_bytes = LoadField<uint64_t>(at + kBodyBytesAt),
                        .checksum = LoadField<uint64_t>(at + kChecksumAt)};
  if (prelude.header_bytes > kMaxHeaderBytes ||
      prelude.header_bytes > first.size() - kPreludeBytes) {
    return InvalidArgumentError("a header of ", prelude.header_bytes,
                                " bytes is announced; the frame has ", first.size() - kPreludeBytes,
                                " and the format allows ", kMaxHeaderBytes);
  }
  if (prelude.body_bytes != total - kPreludeBytes - prelude.header_bytes) {
    return InvalidArgumentError("a body of ", prelude.body_bytes, " bytes is announced; ",
                                total - kPreludeBytes - prelude.header_bytes, " came");
  }
  return prelude;
}

absl::Status ParseHeader(ByteSpan bytes, DataHeader* header) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kMaxNesting);
  if (!header->ParseFromCodedStream(&in) || !in.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError("the header is not a DataHeader");
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const DataHeader& header, uint64_t body_bytes) {
  if (header.payload_sizes_size() > static_cast<int>(kMaxPayloads)) {
    return InvalidArgumentError(header.payload_sizes_size(), " payloads; the format allows ",
                                kMaxPayloads);
  }
  uint64_t sum = 0;
  for (const uint32_t size : header.payload_sizes()) sum += size;
  if (sum != body_bytes) {
    return InvalidArgumentError("payload_sizes add up to ", sum, ", the body has ", body_bytes,
                                " bytes");
  }
  return absl::OkStatus();
}

Bytes Aligned(Bytes bytes) {
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % kPayloadAlignment == 0;
  return aligned ? bytes : Bytes::CopyOf(bytes.span());
}

// REQUIRES: the sizes add up to the bytes of the frames from `offset` of the first.
absl::Status SlicePayloads(std::span<const Bytes> frames, size_t offset, Message* message) {
  size_t frame = 0;
  message->payloads.reserve(message->header.payload_sizes_size());
  for (const uint32_t size : message->header.payload_sizes()) {
    if (size == 0) {
      message->payloads.emplace_back();
      continue;
    }
    while (offset == frames[frame].size()) {
      ++frame;
      offset = 0;
    }
    if (frames[frame].size() - offset < size) {
      return InvalidArgumentError("payload ", message->payloads.size(),
                                  " crosses the boundary of frame ", frame);
    }
    message->payloads.push_back(Aligned(frames[frame].Sub(offset, size)));
    offset += size;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> EncodedSize(const Message& message, size_t max_message_bytes) {
  DataHeader copy;
  PSGD_ASSIGN_OR_RETURN(const Layout layout, LayOut(WithoutSizes(message.header, &copy),
                                                    message.payloads, max_message_bytes));
  return layout.total();
}

absl::StatusOr<EncodedMessage> EncodeMessage(const Message& message, size_t max_message_bytes,
                                             Integrity integrity) {
  DataHeader copy;
  const DataHeader& header = WithoutSizes(message.header, &copy);
  PSGD_ASSIGN_OR_RETURN(const Layout layout, LayOut(header, message.payloads, max_message_bytes));

  std::vector<std::byte> first(kPreludeBytes + layout.header);
  StoreField(kWireMagic, first.data() + kMagicAt);
  StoreField(kProtocolVersion, first.data() + kVersionAt);
  StoreField(static_cast<uint32_t>(layout.header), first.data() + kHeaderBytesAt);
  StoreField(static_cast<uint64_t>(layout.body), first.data() + kBodyBytesAt);
  WriteHeader(header, message.payloads, layout, first.data() + kPreludeBytes);

  FrameBuilder builder(std::move(first));
  for (const Bytes& payload : message.payloads) builder.Add(payload);
  auto [frames, prelude] = builder.Finish();
  if (integrity == Integrity::kChecksum) StoreField(MessageChecksum(frames), prelude + kChecksumAt);
  return EncodedMessage{.frames = std::move(frames), .size = layout.total()};
}

absl::StatusOr<Message> DecodeMessage(std::span<const Bytes> frames, size_t max_message_bytes,
                                      Integrity integrity) {
  if (frames.empty()) return absl::InvalidArgumentError("a message without frames");
  size_t total = 0;
  for (const Bytes& frame : frames) total += frame.size();
  if (total > max_message_bytes) {
    return InvalidArgumentError("a message of ", total, " bytes; this endpoint allows ",
                                max_message_bytes);
  }
  PSGD_ASSIGN_OR_RETURN(const Prelude prelude, ReadPrelude(frames[0], total));
  if (integrity == Integrity::kChecksum && MessageChecksum(frames) != prelude.checksum) {
    return absl::InvalidArgumentError("wrong checksum: the message was damaged on its way");
  }
  Message message;
  const ByteSpan header = frames[0].span().subspan(kPreludeBytes, prelude.header_bytes);
  PSGD_RETURN_IF_ERROR(ParseHeader(header, &message.header));
  PSGD_RETURN_IF_ERROR(CheckSizes(message.header, prelude.body_bytes));
  PSGD_RETURN_IF_ERROR(SlicePayloads(frames, kPreludeBytes + prelude.header_bytes, &message));
  return message;
}

}  // namespace psgd
