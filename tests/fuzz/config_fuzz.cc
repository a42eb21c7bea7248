// Any text as a configuration (--config=yaml), or any assignments to one (--config=set, one per
// line). It is refused with an error that says where, or read. A config that is read, written and
// read again stays the same.
#include <google/protobuf/util/message_differencer.h>

#include <string>

#include "experiment/config/config_yaml.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input_cursor.h"

namespace psgd::fuzz {
namespace {

bool sets = false;

void CheckRoundTrip(const Config& config) {
  const Config resolved = ResolveDefaults(config);
  ValidateConfig(resolved).IgnoreError();
  const std::string text = FormatConfig(config);
  const auto again = ParseConfig(text, "again");
  Require(again.ok(), "what was written cannot be read");
  Require(google::protobuf::util::MessageDifferencer::Equals(*again, resolved),
          "what was written reads as another config");
  Require(FormatConfig(*again) == text, "it is written in two ways");
}

void CheckError(const absl::Status& status, const std::string& where) {
  const std::string message(status.message());
  Require(message.rfind(where, 0) == 0, "the error does not say where");
}

void Read(const std::string& text) {
  const auto config = ParseConfig(text, "input");
  if (config.ok()) return CheckRoundTrip(*config);
  CheckError(config.status(), "input:");
}

void Set(const std::string& text) {
  Config config;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string assignment = text.substr(begin, end - begin);
    const std::string before = config.SerializeAsString();
    const absl::Status status = ApplySet(assignment, &config);
    if (!status.ok()) {
      CheckError(status, "--set ");
      Require(config.SerializeAsString() == before, "a refused assignment changed the config");
    }
    begin = end + 1;
  }
  CheckRoundTrip(config);
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string kind = psgd::fuzz::Variant("config", *argc, *argv);
  psgd::fuzz::Require(kind == "yaml" || kind == "set", "say what, as --config=yaml");
  psgd::fuzz::sets = kind == "set";
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  psgd::fuzz::sets ? psgd::fuzz::Set(text) : psgd::fuzz::Read(text);
  return 0;
}
