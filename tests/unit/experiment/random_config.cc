#include "tests/unit/experiment/random_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "experiment/config/schema.h"

namespace psgd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

class Generator {
 public:
  explicit Generator(std::mt19937_64* random) : random_(*random) {}

  void Fill(Message* message) {
    const auto& type = *message->GetDescriptor();
    // A codec may contain codecs, so this bounds the depth.
    if (std::ranges::count(open_, &type) >= 2) return;
    open_.push_back(&type);
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const OneofDescriptor* choice = field.real_containing_oneof();
      // Later members of a choice replace earlier ones.
      if (Below(choice == nullptr ? 3 : 2) == 0) continue;
      const int times = field.is_repeated() ? Below(4) : 1;
      for (int k = 0; k < times; ++k) Put(message, field);
    }
    open_.pop_back();
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  // Small, large and extreme numbers within [low, high].
  template <typename T>
  T Whole(const FieldDescriptor& field) {
    const auto& options = field.options();
    T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    if (options.HasExtension(min)) low = static_cast<T>(options.GetExtension(min));
    if (options.HasExtension(max)) high = static_cast<T>(options.GetExtension(max));
    switch (Below(4)) {
      case 0:
        return low;
      case 1:
        return high;
      case 2:
        return std::clamp<T>(static_cast<T>(Below(1000)), low, high);
      default:
        return std::clamp<T>(static_cast<T>(random_() >> Below(64)), low, high);
    }
  }

  template <typename T>
  T Real(const FieldDescriptor& field) {
    for (;;) {
      const double unit = std::uniform_real_distribution<double>()(random_);
      const T value = static_cast<T>(
          Below(2) == 0 ? unit : std::ldexp(unit, Below(200) - 100) * (Below(2) == 0 ? 1 : -1));
      if (std::isfinite(value) && InRange(field, static_cast<double>(value))) return value;
    }
  }

  std::string Text(const FieldDescriptor& field) {
    const bool name = field.options().GetExtension(identifier);
    static constexpr const char* kPieces[] = {
        "a", "Z9", "-", ".", "_",  "null", "true", ": ", " #", "'", "\"", "\\",  "~",   "[",
        "{", "&x", "*", "!", "\t", "é",    "日本", "%",  "@",  "|", "> ", "1e3", "0x1", "   "};
    std::string text;
    for (int i = Below(6) + (name ? 1 : 0); i > 0; --i) text += kPieces[Below(name ? 5 : 28)];
    return text;
  }

  void Put(Message* message, const FieldDescriptor& field) {
    const Reflection& set = *message->GetReflection();
    const bool list = field.is_repeated();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return list ? set.AddInt32(message, &field, Whole<int32_t>(field))
                    : set.SetInt32(message, &field, Whole<int32_t>(field));
      case FieldDescriptor::CPPTYPE_INT64:
        return list ? set.AddInt64(message, &field, Whole<int64_t>(field))
                    : set.SetInt64(message, &field, Whole<int64_t>(field));
      case FieldDescriptor::CPPTYPE_UINT64:
        return set.SetUInt64(message, &field, Whole<uint64_t>(field));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return list ? set.AddFloat(message, &field, Real<float>(field))
                    : set.SetFloat(message, &field, Real<float>(field));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return set.SetDouble(message, &field, Real<double>(field));
      case FieldDescriptor::CPPTYPE_BOOL:
        return set.SetBool(message, &field, Below(2) == 0);
      case FieldDescriptor::CPPTYPE_STRING:
        return list ? set.AddString(message, &field, Text(field))
                    : set.SetString(message, &field, Text(field));
      case FieldDescriptor::CPPTYPE_ENUM:
        return set.SetEnum(message, &field,
                           field.enum_type()->value(Below(field.enum_type()->value_count())));
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message* sub = list ? set.AddMessage(message, &field) : set.MutableMessage(message, &field);
        if (!IsProgress(field)) return Fill(sub);
        const char* unit = Below(2) == 0 ? "epochs" : "steps";  // exactly one of them
        return Put(sub, *sub->GetDescriptor()->FindFieldByName(unit));
      }
      case FieldDescriptor::CPPTYPE_UINT32:
        throw std::logic_error("the schema has a type that is not drawn: " + field.full_name());
    }
  }

  std::mt19937_64& random_;
  std::vector<const google::protobuf::Descriptor*> open_;  // of the sections being filled
};

}  // namespace

Config RandomConfig(std::mt19937_64* random) {
  Config config;
  Generator(random).Fill(&config);
  return config;
}

}  // namespace psgd
