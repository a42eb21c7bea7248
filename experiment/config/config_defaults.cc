#include <google/protobuf/text_format.h>

#include <algorithm>
#include <string>

#include "experiment/config/config_yaml.h"
#include "experiment/config/schema.h"
#include "proto/local_steps.h"
#include "proto/target_kind.h"

namespace psgd {
namespace {

constexpr int kLongestSegment = 1000000;  // clocks
constexpr int kSegmentSteps = 64;         // with local steps
constexpr int kFewestClocks = 8;          // likewise

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

void SetToDefault(Message* message, const FieldDescriptor& field) {
  if (field.message_type() == nullptr) {
    std::string value;  // an unset field prints as its default
    TextFormat::PrintFieldValueToString(*message, &field, /*index=*/-1, &value);
    TextFormat::ParseFieldValueFromString(value, &field, message);
  } else if (const auto usual = UsualLength(field)) {  // most lengths are unset, which is "never"
    message->GetReflection()->MutableMessage(message, &field)->CopyFrom(*usual);
  }
}

// An unset choice gets its first member, if that member is a section.
void Choose(Message* message, const OneofDescriptor& choice) {
  const Reflection* reflection = message->GetReflection();
  if (!reflection->HasOneof(*message, &choice) && IsSection(*choice.field(0))) {
    reflection->MutableMessage(message, choice.field(0));
  }
}

void Resolve(Message* message, bool in_list) {
  const Reflection* reflection = message->GetReflection();
  const auto& type = *message->GetDescriptor();
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) Choose(message, *type.oneof_decl(i));
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) {
      if (!IsSection(field)) continue;
      for (int k = 0; k < reflection->FieldSize(*message, &field); ++k) {
        Resolve(reflection->MutableRepeatedMessage(message, &field, k), /*in_list=*/true);
      }
      continue;
    }
    const bool optional = in_list || field.real_containing_oneof() != nullptr;
    const bool present = reflection->HasField(*message, &field);
    if (IsSection(field)) {
      if (present || !optional) Resolve(reflection->MutableMessage(message, &field), in_list);
    } else if (!present && field.real_containing_oneof() == nullptr && !MayStayUnset(field)) {
      SetToDefault(message, field);
    }
  }
}

}  // namespace

Config ResolveDefaults(Config config) {
  if (config.model().has_client()) {
    if (config.optimizer().kind_case() == OptimizerConfig::KIND_NOT_SET) {
      config.mutable_optimizer()->mutable_worker();
    }
    // A whole epoch: loaders with processes of their own ask for batches far ahead of the steps.
    if (!config.cluster().has_segment()) config.mutable_cluster()->set_segment(kLongestSegment);
  }
  if (HasTargetKind(config.data()) && config.data().target_kind() == DataConfig::AUTO) {
    config.mutable_data()->set_target_kind(TargetKindOf(config));
  }
  if (TakesLocalSteps(config.local())) {
    if (config.optimizer().kind_case() == OptimizerConfig::KIND_NOT_SET) {
      config.mutable_optimizer()->mutable_worker();  // the mean of the workers' weights
    }
    // A clock has many steps, so a segment has few clocks: newcomers wait for its end.
    if (!config.cluster().has_segment()) {
      const int clocks = kSegmentSteps / static_cast<int>(StepsOfClock(config.local()));
      config.mutable_cluster()->set_segment(std::max(kFewestClocks, clocks));
    }
  }
  Resolve(&config, /*in_list=*/false);
  return config;
}

}  // namespace psgd
