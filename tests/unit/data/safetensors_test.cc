#include "data/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "data/safetensors_header.h"
#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() : values_(100) { std::iota(values_.begin(), values_.end(), -3.5f); }

  std::vector<NamedTensor> Tensors() const {
    const std::span<const float> all(values_);
    return {{"conv1.weight", {2, 3, 2, 2}, all.subspan(0, 24)},
            {"conv1.bias", {2}, all.subspan(24, 2)},
            {"scalar", {}, all.subspan(26, 1)},
            {"empty", {0, 5}, {}},
            {"na\"me with \xc3\xa9 and \\", {73}, all.subspan(27, 73)}};
  }
  std::string path() const { return folder_.File("weights.safetensors"); }

  ScratchFolder folder_;
  std::vector<float> values_;
};

TEST_F(SafetensorsTest, RoundTrip) {
  const Metadata metadata{{"format", "pt"}, {"model", "lenet5 \"x\"\n"}};
  ASSERT_TRUE(WriteSafetensors(path(), Tensors(), metadata).ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Read(path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata(), metadata);
  ASSERT_EQ(file->tensors().size(), 5u);
  for (const NamedTensor& written : Tensors()) {
    const NamedTensor* read = file->Find(written.name);
    ASSERT_NE(read, nullptr) << written.name;
    EXPECT_EQ(read->shape, written.shape);
    EXPECT_TRUE(std::ranges::equal(read->values, written.values)) << written.name;
  }
  EXPECT_EQ(file->Find("conv1"), nullptr);
  EXPECT_EQ(file->tensors()[0].name, "conv1.weight");
}

TEST_F(SafetensorsTest, NothingToWrite) {
  ASSERT_TRUE(WriteSafetensors(path(), {}, {}).ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Read(path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->tensors(), IsEmpty());
}

TEST_F(SafetensorsTest, HeaderIsPaddedAndDataFollows) {
  ASSERT_TRUE(WriteSafetensors(path(), Tensors(), {}).ok());
  const std::string bytes = ReadFile(path());
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes[8], '{');
  EXPECT_EQ(bytes.size(), 8 + length + 400);
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + length, values_.data(), 400), 0);
}

TEST_F(SafetensorsTest, BadTensorsAreRefused) {
  const std::span<const float> all(values_);
  const auto error = [&](const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
    return std::string(WriteSafetensors(path(), tensors, metadata).message());
  };
  EXPECT_THAT(error({{"a", {7}, all.subspan(0, 6)}}, {}), HasSubstr("shape does not fit"));
  EXPECT_THAT(error({{"a", {-1}, {}}}, {}), HasSubstr("shape does not fit"));
  EXPECT_THAT(error({{"a", {int64_t{1} << 40, int64_t{1} << 40}, {}}}, {}),
              HasSubstr("shape does not fit"));
  EXPECT_THAT(error({{"a", {}, all.subspan(0, 1)}, {"a", {}, all.subspan(0, 1)}}, {}),
              HasSubstr("\"a\""));
  EXPECT_THAT(error({{"__metadata__", {}, all.subspan(0, 1)}}, {}), HasSubstr("__metadata__"));
  EXPECT_THAT(error({{"\xff", {}, all.subspan(0, 1)}}, {}), HasSubstr("UTF-8"));
  EXPECT_THAT(error({}, {{"k", "\xff"}}), HasSubstr("UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(SafetensorsTest, FailureLeavesTheOldFileAndNothingElse) {
  ASSERT_TRUE(WriteSafetensors(path(), Tensors(), {}).ok());
  const std::string before = ReadFile(path());
  EXPECT_FALSE(WriteSafetensors(path(), {{{"a", {3}, {}}}}, {}).ok());
  EXPECT_EQ(ReadFile(path()), before);
  // A target that cannot be replaced: a folder that is not empty.
  std::filesystem::create_directories(folder_.File("taken/inside"));
  const absl::Status status = WriteSafetensors(folder_.File("taken"), Tensors(), {});
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot replace"));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("weights.safetensors", "taken"));
}

TEST_F(SafetensorsTest, PathsThatCannotBe) {
  EXPECT_THAT(std::string(WriteSafetensors(folder_.File("no/such/file"), Tensors(), {}).message()),
              HasSubstr("no/such/file"));
  EXPECT_EQ(SafetensorsFile::Read(folder_.File("absent")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(SafetensorsFile::Read(folder_.path()).status().message()),
              HasSubstr("not a regular file"));
}

// Uses only Python's standard library, so that psgd does not check itself.
TEST_F(SafetensorsTest, PythonReadsIt) {
  if (std::system("python3 -c 'import json, struct' >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "python3 is not there to read the file";
  }
  ASSERT_TRUE(WriteSafetensors(path(), Tensors(), {{"format", "pt"}}).ok());
  WriteFile(folder_.File("check.py"), R"(
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + length])
assert header.pop("__metadata__") == {"format": "pt"}
values = []
for name, tensor in header.items():
    assert tensor["dtype"] == "F32"
    begin, end = tensor["data_offsets"]
    count = 1
    for size in tensor["shape"]:
        count *= size
    assert end - begin == 4 * count, name
    values += struct.unpack("<%df" % count, data[8 + length:][begin:end])
assert values == [i - 3.5 for i in range(100)], values
assert header["conv1.weight"]["shape"] == [2, 3, 2, 2]
assert 'na"me with \u00e9 and \\' in header
)");
  EXPECT_EQ(std::system(("python3 " + folder_.File("check.py") + " " + path()).c_str()), 0);
}

}  // namespace
}  // namespace psgd
