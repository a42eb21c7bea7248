// Files that are not what they claim are refused with a reason, whatever their bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "data/safetensors.h"
#include "data/safetensors_header.h"
#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

using testing::HasSubstr;

std::string HeaderError(const std::string& json, uint64_t data_bytes = 8) {
  const absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(json, data_bytes);
  return header.ok() ? "no error" : std::string(header.status().message());
}

// One tensor of two values, with parts replaced.
std::string One(const std::string& body) { return "{\"a\":{" + body + "}}"; }

TEST(SafetensorsDamageTest, SoundHeadersAreRead) {
  EXPECT_EQ(HeaderError(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )"),
            "no error");
  EXPECT_EQ(HeaderError(R"({"b":{"shape":[1],"data_offsets":[4,8],"dtype":"F32"},)"
                        R"("__metadata__":{"k":"v"},)"
                        R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})"),
            "no error");
}

TEST(SafetensorsDamageTest, GrammarIsStrict) {
  for (const char* json :
       {"", "[]", "1", "null", "{", "{}x", "\"a\"", R"({"a":1})", R"({"a":[]})", R"({"a":null})",
        R"({"__metadata__":{"k":1}})", R"({"__metadata__":{"k":{}}})", R"({"__metadata__":[]})"}) {
    EXPECT_THAT(HeaderError(json, 0), HasSubstr("the header holds")) << json;
  }
  EXPECT_THAT(HeaderError(One("")), HasSubstr("lacks dtype"));
  EXPECT_THAT(HeaderError(One(R"("dtype":"F32","shape":[2])")), HasSubstr("lacks dtype"));
  EXPECT_THAT(HeaderError(One(R"("dtype":"F16","shape":[4],"data_offsets":[0,8])")),
              HasSubstr("only F32"));
  EXPECT_THAT(HeaderError(One(R"("dtype":"F32","dtype":"F32")")), HasSubstr("repeats a key"));
  EXPECT_THAT(HeaderError(One(R"("stride":[1])")), HasSubstr("unknown key"));
  EXPECT_THAT(HeaderError(One(R"("shape":[-2])")), HasSubstr("negative"));
  EXPECT_THAT(HeaderError(One(R"("shape":[2.0])")), HasSubstr("not whole"));
  EXPECT_THAT(HeaderError(One(R"("shape":[[2]])")), HasSubstr("list where none belongs"));
  EXPECT_THAT(HeaderError(One(R"("shape":["2"])")), HasSubstr("string where none belongs"));
  EXPECT_THAT(HeaderError(One(R"("shape":2)")), HasSubstr("number where none belongs"));
  EXPECT_THAT(HeaderError(One(R"("shape":[18446744073709551615])")), HasSubstr("impossible shape"));
  EXPECT_THAT(HeaderError(One(R"("data_offsets":[0])")), HasSubstr("lacks an offset"));
  EXPECT_THAT(HeaderError(One(R"("data_offsets":[0,4,8])")), HasSubstr("more than two"));
  EXPECT_THAT(HeaderError(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("twice"));
  EXPECT_THAT(HeaderError(R"({"__metadata__":{"k":"v","k":"v"}})"), HasSubstr("twice"));
}

TEST(SafetensorsDamageTest, TensorsCoverTheDataExactly) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(HeaderError(two("[0,4]", "[4,8]")), "no error");
  EXPECT_THAT(HeaderError(two("[0,4]", "[0,4]")), HasSubstr("begins at byte 0"));
  EXPECT_THAT(HeaderError(two("[0,4]", "[8,12]"), 12), HasSubstr("begins at byte 8"));
  EXPECT_THAT(HeaderError(two("[0,4]", "[4,8]"), 12), HasSubstr("end at byte 8 of 12"));
  EXPECT_THAT(HeaderError(two("[0,4]", "[4,12]")), HasSubstr("only 8 bytes"));
  EXPECT_THAT(HeaderError(two("[0,4]", "[4,18446744073709551615]")), HasSubstr("only 8 bytes"));
  EXPECT_THAT(HeaderError(two("[0,4]", "[8,4]")), HasSubstr("only 8 bytes"));
  EXPECT_THAT(HeaderError(two("[0,3]", "[3,8]")), HasSubstr("1 elements, but 3 bytes"));
  EXPECT_THAT(HeaderError(One(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])")),
              HasSubstr("3 elements, but 8 bytes"));
  EXPECT_THAT(HeaderError(One(R"("dtype":"F32","shape":[4294967296,4294967296,4294967296],)"
                              R"("data_offsets":[0,8])")),
              HasSubstr("impossibly large"));
}

TEST(SafetensorsDamageTest, DeepAndLongHeadersEndEarly) {
  EXPECT_THAT(HeaderError(std::string(1000000, '[')), HasSubstr("list where none belongs"));
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  EXPECT_THAT(HeaderError(nested), HasSubstr("unknown key"));
  std::string dimensions = "1";
  for (int i = 0; i < 1000; ++i) dimensions += ",1";
  EXPECT_THAT(HeaderError(One("\"shape\":[" + dimensions + "]")), HasSubstr("impossible shape"));
  const std::string name(1000000, 'n');
  EXPECT_LT(HeaderError("{\"" + name + "\":1}").size(), 300u);
}

class SafetensorsFileDamageTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<float> values(30, 0.25f);
    const std::span<const float> all(values);
    const std::vector<NamedTensor> tensors{{"fc1.weight", {4, 6}, all.subspan(0, 24)},
                                           {"fc1.bias", {6}, all.subspan(24, 6)}};
    ASSERT_TRUE(WriteSafetensors(path(), tensors, {{"format", "pt"}}).ok());
    sound_ = ReadFile(path());
  }
  std::string path() const { return folder_.File("w.safetensors"); }
  // Reads every value if the file is accepted.
  absl::Status Try(const std::string& bytes) {
    WriteFile(path(), bytes);
    const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Read(path());
    if (!file.ok()) return file.status();
    double sum = 0;
    for (const NamedTensor& tensor : file->tensors()) {
      for (const float value : tensor.values) sum += value;
    }
    return sum == sum + 1 ? absl::DataLossError("huge") : absl::OkStatus();
  }

  ScratchFolder folder_;
  std::string sound_;
};

TEST_F(SafetensorsFileDamageTest, EveryTruncationIsRefused) {
  for (size_t size = 0; size < sound_.size(); ++size) {
    const absl::Status status = Try(sound_.substr(0, size));
    ASSERT_FALSE(status.ok()) << size;
    ASSERT_THAT(std::string(status.message()), HasSubstr("w.safetensors: "));
  }
  EXPECT_FALSE(Try(sound_ + "x").ok());
}

TEST_F(SafetensorsFileDamageTest, HeaderLengthSizesNothing) {
  for (const uint64_t length : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{0}}) {
    std::string bytes = sound_;
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_FALSE(Try(bytes).ok()) << length;
  }
}

// Thousands of damaged files. A flipped bit in the values or in a name may be accepted.
TEST_F(SafetensorsFileDamageTest, RandomDamageNeverCrashes) {
  std::mt19937 random(7);
  const std::string spice = "{}[]\",:0123456789eE.-F \xff\0\x01";
  int refused = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    std::string bytes = sound_;
    for (int changes = 1 + trial % 4; changes > 0; --changes) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] ^= static_cast<char>(1 << random() % 8);
          break;
        case 1:
          bytes[at] = spice[random() % spice.size()];
          break;
        case 2:
          bytes.erase(at, 1 + random() % 9);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 20));
          break;
      }
    }
    refused += !Try(bytes).ok();
  }
  EXPECT_GT(refused, 3000);
}

// Damage in the header alone, without the file around it: many more cases, and deeper damage.
TEST_F(SafetensorsFileDamageTest, RandomHeadersNeverCrash) {
  uint64_t length;
  std::memcpy(&length, sound_.data(), 8);
  const std::string header = sound_.substr(8, length);
  const std::string spice = "{}[]\",:0123456789eE.-F \xff\x01";
  std::mt19937 random(8);
  int accepted = 0;
  for (int trial = 0; trial < 50000; ++trial) {
    std::string bytes = header;
    for (int changes = 1 + trial % 3; changes > 0; --changes) {
      bytes[random() % bytes.size()] = spice[random() % spice.size()];
    }
    const absl::StatusOr<SafetensorsHeader> parsed = ParseSafetensorsHeader(bytes, 120);
    if (!parsed.ok()) continue;
    ++accepted;
    uint64_t position = 0;
    for (const TensorEntry& tensor : parsed->tensors) {
      ASSERT_EQ(tensor.begin, position);
      position = tensor.end;
    }
    ASSERT_EQ(position, 120u);
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace psgd
