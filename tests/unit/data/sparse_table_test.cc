#include "data/sparse_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

struct SparseSample {
  std::vector<int32_t> indices;
  std::vector<float> values;
  int32_t label = -7;
};

SparseSample ReadSample(const Dataset& set, size_t index) {
  const auto places = static_cast<size_t>(set.shape().entries);
  SparseSample sample = {std::vector<int32_t>(places, -1), std::vector<float>(places, -1)};
  EXPECT_TRUE(set.Read({0, index}, {sample.values, sample.indices, {&sample.label, 1}}).ok());
  return sample;
}

class SparseTableTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    WriteFile(folder_.File(name), text);
    return folder_.File(name);
  }
  TrainAndTest Load(const SparseTableOptions& options) {
    auto sets = LoadSparseTable(options);
    EXPECT_TRUE(sets.ok()) << sets.status();
    return *std::move(sets);
  }
  std::string Error(const SparseTableOptions& options) {
    const auto status = LoadSparseTable(options).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  ScratchFolder folder_;
};

constexpr char kLibsvm[] = "+1 1:0.5 7:-2 # a remark\n-1 3:1e-1\n\n+1 2:0 5:4\n-1\n";

TEST_F(SparseTableTest, LibsvmRowsBecomePaddedEntries) {
  const TrainAndTest sets = Load({.path = Write("a", kLibsvm), .test = Write("b", "-1 9:3\n")});
  const SampleShape shape = sets.train->shape();
  EXPECT_EQ(shape.entries, 2);
  EXPECT_EQ(shape.vocabulary, 9);  // of both files
  EXPECT_EQ(shape.classes, 2);
  ASSERT_EQ(sets.train->size(), 4u);
  const SparseSample first = ReadSample(*sets.train, 0);
  EXPECT_THAT(first.indices, ElementsAre(0, 6));
  EXPECT_THAT(first.values, ElementsAre(0.5f, -2));
  EXPECT_EQ(first.label, 1);
  const SparseSample third = ReadSample(*sets.train, 2);
  EXPECT_THAT(third.indices, ElementsAre(4, 0));
  EXPECT_THAT(third.values, ElementsAre(4, 0));
  EXPECT_THAT(ReadSample(*sets.train, 3).values, ElementsAre(0, 0));
  EXPECT_EQ(ReadSample(*sets.test, 0).label, 0);
}

TEST_F(SparseTableTest, TheTestIsANeighbourOrTheLastLines) {
  const std::string path = Write("a", kLibsvm);
  EXPECT_EQ(Load({.path = path, .test_fraction = 0.5}).test->size(), 2u);
  Write("a.t", "+1 1:1\n+1 1:1\n+1 1:1\n");
  EXPECT_EQ(Load({.path = path}).test->size(), 3u);
  EXPECT_EQ(Load({.path = path}).train->size(), 4u);
}

TEST_F(SparseTableTest, SortedClassesAreNoted) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += i < 20 ? "+1 1:1\n" : "-1 1:1\n";
  EXPECT_THAT(Load({.path = Write("s", lines), .test_fraction = 0.25}).note,
              HasSubstr("s: all 10 test rows, the last of the file, have the class -1;"));
  Write("s.t", "-1 1:1\n");
  EXPECT_EQ(Load({.path = folder_.File("s")}).note, "2 classes: -1, 1; no test sample has 1");
}

TEST_F(SparseTableTest, ALineOfARemarkAloneIsNoSample) {
  const std::string path =
      Write("a", "# made by hand\n+1 1:1\r\n  # 2:1\n#\n \t\n-1 2:1# 3:1\n-1\n");
  const TrainAndTest sets = Load({.path = path, .test_fraction = 0.3});
  EXPECT_EQ(sets.train->size(), 2u);
  EXPECT_EQ(sets.test->size(), 1u);
  EXPECT_EQ(sets.train->shape().vocabulary, 2);
  EXPECT_THAT(Error({.path = Write("b", "# nothing\n")}), HasSubstr("has no samples"));
  EXPECT_THAT(Error({.path = Write("b", "# one\nx 1:1\n")}), HasSubstr(":2: \"x\" is no label"));
}

TEST_F(SparseTableTest, FilesMayBeGzip) {
  EXPECT_EQ(Load({.path = Write("a.gz", Gzip(kLibsvm)), .test_fraction = 0.5}).train->size(), 2u);
}

TEST_F(SparseTableTest, BadLibsvmNamesItsLine) {
  const std::pair<const char*, const char*> bad[] = {
      {"+1 1:1\nx 1:1\n", ":2: \"x\" is no label"},
      {"+1 1:1\n-1 3\n", ":2: \"3\" is no index:value"},
      {"+1 1:nan\n", ":1: \"1:nan\" is no index:value"},
      {"+1 2:1 1:1\n", ":1: \"1:1\" has an index that is not above"},
      {"+1 0:1\n", "or below 1"},
      {"+1 99999999999:1\n", "too large"},
      {"+1 1:1\n-1 2:1 1073741824:1\n",
       ":2: index 1073741824 means a model of as many features: 4"},
      {"+1 1:1\n+1 2:1\n", "the label has 1 different numbers"},
      {"\n\n", "has no samples"},
  };
  for (const auto& [text, problem] : bad) {
    EXPECT_THAT(Error({.path = Write("a", text)}), AllOf(HasSubstr("/a"), HasSubstr(problem)));
  }
  EXPECT_THAT(Error({.path = folder_.File("none")}), HasSubstr("cannot open"));
  EXPECT_THAT(Error({.path = Write("a", kLibsvm), .test = Write("b", "3 1:1\n")}),
              HasSubstr("b:1: its label is 3, a class that no training sample has"));
  EXPECT_THAT(Error({.path = Write("a", kLibsvm), .features = 6}), HasSubstr("has index 7"));
  EXPECT_THAT(Error({.path = Write("a", "+1 1:1\n"), .test_fraction = 0.1}), HasSubstr("too few"));
}

TEST_F(SparseTableTest, LabelsMayBeNumbersOrCounts) {
  const std::string path = Write("a", "10 1:1\n30 2:1\n20.5 1:1 2:1\n");
  const auto read = [](const Dataset& set, size_t index) {
    std::vector<int32_t> indices(static_cast<size_t>(set.shape().entries));
    std::vector<float> values(indices.size());
    int32_t label = -7;
    float target = -7;
    EXPECT_TRUE(set.Read({0, index}, {values, indices, {&label, 1}, {&target, 1}}).ok());
    EXPECT_EQ(label, 0);
    return target;
  };
  const TrainAndTest numbers =
      Load({.path = path, .test_fraction = 0.3, .kind = DataConfig::NUMBER});
  EXPECT_EQ(numbers.train->shape().classes, 1);
  EXPECT_EQ(numbers.train->shape().targets, 1);
  EXPECT_THAT(numbers.targets.names, ElementsAre("label"));
  EXPECT_EQ(numbers.targets.scales[0].mean, 20);
  EXPECT_EQ(read(*numbers.train, 0), -1);
  EXPECT_FLOAT_EQ(read(*numbers.test, 0), 0.05f);
  const TrainAndTest counts = Load({.path = path, .test_fraction = 0.3, .kind = DataConfig::COUNT});
  EXPECT_EQ(read(*counts.train, 1), 30);
  EXPECT_THAT(Error({.path = Write("b", "1 1:1\n-2 1:1\n3 1:1\n"),
                     .test_fraction = 0.3,
                     .kind = DataConfig::COUNT}),
              HasSubstr("b:2: its label: -2 is below 0, which no count is"));
  EXPECT_THAT(Error({.path = Write("b", "1e31 1:1\n"), .kind = DataConfig::NUMBER}),
              HasSubstr("b:1: its number is 1e+31, above 1e30"));
  EXPECT_THAT(Error({.path = Write("b", "nan 1:1\n"), .kind = DataConfig::NUMBER}),
              HasSubstr("b:1: \"nan\" is no label"));
}

std::string CriteoLine(const char* label, const char* count, const char* category) {
  std::string line = label;
  for (int i = 0; i < kCriteoCounts; ++i) line += std::string("\t") + (i == 1 ? count : "");
  for (int i = 0; i < kCriteoCategories; ++i) line += std::string("\t") + (i < 2 ? category : "");
  return line + "\n";
}

TEST_F(SparseTableTest, CriteoLines) {
  const std::string text = CriteoLine("0", "0", "68fd1e64") + CriteoLine("1", "20", "80e26c9b") +
                           CriteoLine("1", "-2", "68fd1e64");
  const TrainAndTest sets =
      Load({.path = Write("c", text), .test_fraction = 0.3, .criteo = true, .features = 1000});
  EXPECT_EQ(sets.train->shape().vocabulary, 1013);
  EXPECT_EQ(sets.train->shape().entries, 3);
  const SparseSample zero = ReadSample(*sets.train, 0), second = ReadSample(*sets.train, 1);
  EXPECT_THAT(zero.values, ElementsAre(1, 1, 0));  // a count of 0 adds nothing
  // One word in two columns. These numbers are the same on every machine.
  EXPECT_THAT(std::vector(zero.indices.begin(), zero.indices.begin() + 2),
              UnorderedElementsAre(119, 286));
  EXPECT_EQ(second.indices[0], 1);
  EXPECT_FLOAT_EQ(second.values[0], std::log1p(20.0f));
  const SparseSample third = ReadSample(*sets.test, 0);
  EXPECT_EQ(third.values[0], -1);
  EXPECT_EQ(third.indices[1], zero.indices[0]);
  EXPECT_THAT(Error({.path = Write("d", "1\t2\t3\n"), .criteo = true}),
              HasSubstr(":1: 3 fields between tabs"));
  EXPECT_THAT(Error({.path = Write("d", CriteoLine("", "2", "a")), .criteo = true}),
              HasSubstr("d:1: its label is \"\"; it must be 0 or 1"));
  EXPECT_THAT(Error({.path = Write("d", CriteoLine("1", "2", "a") + CriteoLine("2", "2", "a")),
                     .criteo = true}),
              HasSubstr("d:2: its label is 2; it must be 0 or 1"));
  EXPECT_THAT(Error({.path = Write("d", CriteoLine("1", "x", "a")), .criteo = true}),
              HasSubstr("count 2 is \"x\""));
}

// Empty fields count, even at the end.
TEST_F(SparseTableTest, CriteoLinesHaveAllTheirFields) {
  const std::string bare = CriteoLine("0", "", ""), whole = CriteoLine("1", "20", "80e26c9b");
  const TrainAndTest sets =
      Load({.path = Write("c", whole + bare.substr(0, bare.size() - 1) + "\r\n" + whole),
            .test_fraction = 0.3,
            .criteo = true,
            .features = 1000});
  ASSERT_EQ(sets.train->size(), 2u);
  EXPECT_THAT(ReadSample(*sets.train, 1).values, ElementsAre(0, 0, 0));
  for (const size_t tabs : {15u, 38u}) {
    std::string cut = whole;
    size_t end = 0;
    for (size_t i = 0; i < tabs; ++i) end = cut.find('\t', end) + 1;
    cut.resize(end);
    EXPECT_THAT(Error({.path = Write("d", whole + cut + "\n"), .criteo = true}),
                AllOf(HasSubstr("d:2: " + std::to_string(tabs + 1) + " fields between tabs"),
                      HasSubstr("cut short")));
  }
  EXPECT_THAT(
      Error({.path = Write("d", whole.substr(0, whole.size() - 1) + "\t\n"), .criteo = true}),
      AllOf(HasSubstr("41 fields"), HasSubstr("data.format")));
}

}  // namespace
}  // namespace psgd
