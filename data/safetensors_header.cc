#include "data/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";

// Names come from the file, so the shown part is short and printable.
std::string Shown(const std::string& name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 80)), "\"");
}

// Handles the header while it is parsed: no tree is built, and the format limits the nesting.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  SafetensorsHeader header;
  std::string problem;

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kMetadataObject:
        place_ = Place::kMetadata;
        return true;
      case Place::kTensorObject:
        place_ = Place::kTensor;
        return true;
      default:
        return Fail("an object where none belongs");
    }
  }

  bool key(string_t& key) override {
    switch (place_) {
      case Place::kTop:
        if (!names_.insert(key).second) return Fail(Shown(key), " occurs twice");
        if (key == kMetadata) {
          place_ = Place::kMetadataObject;
        } else {
          place_ = Place::kTensorObject;
          seen_ = 0;
          offsets_ = 0;
          header.tensors.push_back({key, {}, 0, 0});
        }
        return true;
      case Place::kMetadata:
        if (!header.metadata.emplace(key, "").second) {
          return Fail("metadata ", Shown(key), " occurs twice");
        }
        metadata_key_ = key;
        place_ = Place::kMetadataValue;
        return true;
      case Place::kTensor:
        if (key == "dtype") return Enter(Place::kDtype, 1);
        if (key == "shape") return Enter(Place::kShape, 2);
        if (key == "data_offsets") return Enter(Place::kOffsets, 4);
        return Fail("tensor ", Name(), " has an unknown key ", Shown(key));
      default:
        return Fail("a key where none belongs");
    }
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadataValue) {
      header.metadata[metadata_key_] = value;
      place_ = Place::kMetadata;
      return true;
    }
    if (place_ != Place::kDtype) return Fail("a string where none belongs");
    if (value != "F32") {
      return Fail("tensor ", Name(), " has dtype ", Shown(value), "; only F32 can be read");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kShape) return Move(Place::kShapeItems);
    if (place_ == Place::kOffsets) return Move(Place::kOffsetItems);
    return Fail("a list where none belongs");
  }

  bool number_unsigned(number_unsigned_t value) override {
    TensorEntry* tensor = header.tensors.empty() ? nullptr : &header.tensors.back();
    if (place_ == Place::kShapeItems) {
      if (tensor->shape.size() == kSafetensorsMostDimensions || value > kLargest) {
        return Fail("tensor ", Name(), " has an impossible shape");
      }
      tensor->shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ != Place::kOffsetItems) return Fail("a number where none belongs");
    if (offsets_ == 2) return Fail("tensor ", Name(), " has more than two offsets");
    (offsets_++ == 0 ? tensor->begin : tensor->end) = value;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsetItems && offsets_ != 2) {
      return Fail("tensor ", Name(), " lacks an offset");
    }
    return Move(Place::kTensor);
  }

  bool end_object() override {
    switch (place_) {
      case Place::kTop:
        return Move(Place::kEnd);
      case Place::kMetadata:
        return Move(Place::kTop);
      default:
        if (seen_ != 7) {
          return Fail("tensor ", Name(), " lacks dtype, shape or data_offsets");
        }
        return Move(Place::kTop);
    }
  }

  bool null() override { return Fail("a null where none belongs"); }
  bool boolean(bool) override { return Fail("a truth value where none belongs"); }
  bool number_integer(number_integer_t) override { return Fail("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Fail("a number that is not whole");
  }
  bool binary(binary_t&) override { return Fail("binary data"); }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    return Fail("no valid JSON at byte ", position);
  }

 private:
  enum class Place {
    kStart,
    kTop,
    kMetadataObject,
    kMetadata,
    kMetadataValue,
    kTensorObject,
    kTensor,
    kDtype,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems,
    kEnd
  };
  static constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();

  template <typename... Parts>
  bool Fail(const Parts&... parts) {
    problem = absl::StrCat(parts...);
    return false;
  }
  bool Move(Place place) {
    place_ = place;
    return true;
  }
  // Enters the value of one of a tensor's keys; `bit` stands for that key.
  bool Enter(Place place, int bit) {
    if (seen_ & bit) return Fail("tensor ", Name(), " repeats a key");
    seen_ |= bit;
    return Move(place);
  }
  std::string Name() const { return Shown(header.tensors.back().name); }

  Place place_ = Place::kStart;
  std::set<std::string> names_;
  std::string metadata_key_;
  int seen_ = 0;     // keys of the current tensor
  int offsets_ = 0;  // of the current tensor, so far
};

// REQUIRES: tensors are sorted by offset.
absl::Status CheckCover(const std::vector<TensorEntry>& tensors, uint64_t data_bytes) {
  uint64_t position = 0;
  for (const TensorEntry& tensor : tensors) {
    const std::string name = Shown(tensor.name);
    if (tensor.end < tensor.begin || tensor.end > data_bytes) {
      return DataLossError("tensor ", name, " lies at bytes ", tensor.begin, " to ", tensor.end,
                           ", but there are only ", data_bytes, " bytes of data");
    }
    if (tensor.begin != position) {
      return DataLossError("tensor ", name, " begins at byte ", tensor.begin,
                           ", but the tensor before it ends at ", position);
    }
    PSGD_ASSIGN_OR_RETURN(const uint64_t elements, ElementsOf(tensor.shape));
    if (elements != (tensor.end - tensor.begin) / sizeof(float) ||
        (tensor.end - tensor.begin) % sizeof(float) != 0) {
      return DataLossError("tensor ", name, " has ", elements, " elements, but ",
                           tensor.end - tensor.begin, " bytes");
    }
    position = tensor.end;
  }
  if (position == data_bytes) return absl::OkStatus();
  return DataLossError("the tensors end at byte ", position, " of ", data_bytes, " of data");
}

}  // namespace

absl::StatusOr<uint64_t> ElementsOf(const std::vector<int64_t>& shape) {
  constexpr uint64_t kMost = uint64_t{1} << 61;
  uint64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0) return absl::DataLossError("a tensor has a negative size");
    // A zero ends the loop: the tensor is empty, whatever its other sizes are.
    if (size == 0) return 0;
    if (static_cast<uint64_t>(size) > kMost / elements)
      return absl::DataLossError("a tensor is impossibly large");
    elements *= static_cast<uint64_t>(size);
  }
  return elements;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes) {
  HeaderReader reader;
  if (!Json::sax_parse(json.data(), json.data() + json.size(), &reader)) {
    return DataLossError("the header holds ", reader.problem);
  }
  std::vector<TensorEntry>& tensors = reader.header.tensors;
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  PSGD_RETURN_IF_ERROR(CheckCover(tensors, data_bytes));
  return std::move(reader.header);
}

absl::StatusOr<std::string> FormatSafetensorsHeader(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.name == kMetadata || json.contains(tensor.name)) {
      return InvalidArgumentError("two tensors, or a tensor and the metadata, are named ",
                                  Shown(tensor.name));
    }
    json[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const Json::type_error&) {
    return absl::InvalidArgumentError("a tensor's name or a metadata string is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace psgd
