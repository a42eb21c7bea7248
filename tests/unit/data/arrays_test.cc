#include "data/arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/npy.h"
#include "data/number_scale.h"
#include "data/zip.h"
#include "tests/unit/data/npz_files.h"
#include "tests/unit/data/row_samples.h"
#include "tests/unit/data/scratch.h"
#include "tests/unit/data/sequence_sets.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class ArraysTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    WriteFile(folder_.File(name), bytes);
    return folder_.File(name);
  }
  std::string WritePair(const std::string& x, const std::string& y) {
    return Write("a.npz", ZipOf({{"x.npy", x}, {"y.npy", y}}));
  }
  TrainAndTest Load(const ArraysOptions& options) {
    auto sets = LoadArrays(options);
    EXPECT_TRUE(sets.ok()) << sets.status();
    return *std::move(sets);
  }
  std::string Error(const ArraysOptions& options) {
    const auto status = LoadArrays(options).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  ScratchFolder folder_;
};

const std::string kX = NpyOf<float>("<f4", {4, 2}, {1, 5, 3, 5, 1, 5, 9, 6});
const std::string kY = NpyOf<double>("<f8", {4}, {10, 20, 30, 60});

TEST_F(ArraysTest, RowsAreNormalizedByTheTrainingSamples) {
  const TrainAndTest sets =
      Load({.path = WritePair(kX, kY), .test_fraction = 0.5, .kind = DataConfig::NUMBER});
  EXPECT_EQ(sets.train->size(), 2u);
  EXPECT_EQ(sets.test->size(), 2u);
  EXPECT_EQ(sets.train->shape().ImageText(), "2 values");
  EXPECT_EQ(sets.train->shape().targets, 1);
  EXPECT_THAT(RowOf(*sets.train, 0).values, ElementsAre(-1, 0));
  EXPECT_THAT(RowOf(*sets.test, 1).values, ElementsAre(7, 1));
  EXPECT_THAT(RowOf(*sets.test, 1).targets, ElementsAre(9));
  EXPECT_EQ(sets.targets.scales[0].mean, 15);
  EXPECT_THAT(sets.targets.names, ElementsAre("y"));
}

// The sum of a thousand times 0.1 is rounded.
TEST_F(ArraysTest, AColumnThatIsConstantInTrainingStaysSmall) {
  constexpr size_t kRows = 1001;
  std::vector<double> x(kRows, 0.1);
  x.back() = 0.2;
  const TrainAndTest sets =
      Load({.path = WritePair(NpyOf("<f8", {kRows, 1}, x),
                              NpyOf("<f8", {kRows}, std::vector<double>(kRows, -0.1))),
            .test_fraction = 0.5 / kRows,
            .kind = DataConfig::NUMBER});
  EXPECT_EQ(RowOf(*sets.train, 7).values[0], 0);
  EXPECT_FLOAT_EQ(RowOf(*sets.test, 0).values[0], 0.1f);
  EXPECT_EQ(sets.targets.scales[0].mean, -0.1);
  EXPECT_EQ(sets.targets.scales[0].deviation, 1);

  const double nearly[] = {0.3, 0.1 + 0.2};  // differ by rounding
  EXPECT_EQ(MeasureScale(2, [&](size_t i) { return nearly[i]; })->deviation, 1);
  const double varied[] = {1, 1 + 1e-9};
  EXPECT_NEAR(MeasureScale(2, [&](size_t i) { return varied[i]; })->deviation, 5e-10, 1e-15);
}

TEST_F(ArraysTest, ImagesAreNormalizedByChannel) {
  const std::string x =
      NpyOf<uint8_t>("|u1", {3, 2, 1, 2}, {0, 2, 10, 10, 2, 0, 10, 10, 3, 4, 9, 8});
  const std::string y = NpyOf<int64_t>("<i8", {3, 1}, {7, 3, 7});
  const TrainAndTest sets = Load({.path = WritePair(x, y), .test_fraction = 0.3});
  const SampleShape shape = sets.train->shape();
  EXPECT_EQ(shape.ImageText(), "2x1x2");
  EXPECT_EQ(shape.classes, 2);
  EXPECT_EQ(shape.targets, 0);
  EXPECT_THAT(RowOf(*sets.train, 0).values, ElementsAre(-1, 1, 0, 0));
  EXPECT_EQ(RowOf(*sets.train, 0).label, 1);
  EXPECT_EQ(RowOf(*sets.train, 1).label, 0);
  EXPECT_THAT(RowOf(*sets.test, 0).values, ElementsAre(2, 3, -1, -2));
}

TEST_F(ArraysTest, SeveralTargetsAndATestFile) {
  const std::string y = NpyOf<uint8_t>("|b1", {4, 2}, {0, 1, 1, 1, 0, 0, 1, 0});
  const TrainAndTest sets =
      Load({.path = Write("a.npz", ZipOf({{"x.npy", kX}, {"y.npy", y}}, true)),
            .test = Write("b.npz", ZipOf({{"y.npy", NpyOf<float>("<f4", {1, 2}, {1, 0})},
                                          {"x.npy", NpyOf<int32_t>("<i4", {1, 2}, {1, 5})}},
                                         true, true)),
            .kind = DataConfig::LABELS});
  EXPECT_EQ(sets.train->size(), 4u);
  ASSERT_EQ(sets.test->size(), 1u);
  EXPECT_EQ(sets.targets.kind, Targets::Kind::kLabel);
  EXPECT_THAT(sets.targets.names, ElementsAre("y0", "y1"));
  EXPECT_THAT(RowOf(*sets.train, 0).targets, ElementsAre(0, 1));
  EXPECT_THAT(RowOf(*sets.test, 0).targets, ElementsAre(1, 0));
}

TEST_F(ArraysTest, AFolderMayHoldTheArrays) {
  Write("x.npy", kX);
  Write("y.npy", kY);
  EXPECT_EQ(Load({.path = folder_.path(), .kind = DataConfig::COUNT}).train->size(), 3u);
}

TEST_F(ArraysTest, EveryTypeOfElementIsRead) {
  const auto second = [](const std::string& npy) {
    const auto array = NpyArray::Parse({npy.begin(), npy.end()}, "a");
    EXPECT_TRUE(array.ok()) << array.status();
    return array.ok() ? array->At(1) : NAN;
  };
  EXPECT_EQ(second(NpyOf<int8_t>("|i1", {2}, {1, -2})), -2);
  EXPECT_EQ(second(NpyOf<int16_t>("<i2", {2}, {1, -300})), -300);
  EXPECT_EQ(second(NpyOf<uint16_t>("<u2", {2}, {1, 60000})), 60000);
  EXPECT_EQ(second(NpyOf<uint32_t>("<u4", {2}, {1, 4000000000u})), 4e9);
  EXPECT_EQ(second(NpyOf<uint64_t>("<u8", {1, 2}, {1, uint64_t{1} << 63})), std::ldexp(1, 63));
  EXPECT_EQ(second(NpyOf<uint16_t>("<f2", {2}, {0, 0xC500})), -5);
  EXPECT_EQ(second(NpyOf<uint16_t>("<f2", {2}, {0, 0x0001})), std::ldexp(1, -24));
  EXPECT_TRUE(std::isinf(second(NpyOf<uint16_t>("<f2", {2}, {0, 0x7C00}))));
}

TEST_F(ArraysTest, ErrorsNameTheArrayAndTheSample) {
  const std::string file = folder_.File("a.npz");
  const auto error = [&](const std::string& x, const std::string& y,
                         DataConfig::TargetKind kind = DataConfig::NUMBER) {
    return Error({.path = WritePair(x, y), .test_fraction = 0.3, .kind = kind});
  };
  EXPECT_THAT(error(NpyOf<float>("<f4", {4, 1}, {1, 2, NAN, 3}), kY),
              StartsWith(file + ": x[2]: nan is not finite, or above 1e30; replace it"));
  EXPECT_THAT(error(kX, NpyOf<float>("<f4", {4}, {1, 2, 3, INFINITY})),
              HasSubstr("y[3]: inf is not"));
  EXPECT_THAT(error(kX, kY, DataConfig::LABELS), HasSubstr("y[0]: 10 is neither 0 nor 1"));
  EXPECT_THAT(error(kX, NpyOf<float>("<f4", {4}, {1, -2, 3, 4}), DataConfig::COUNT),
              HasSubstr("y[1]: -2 is below 0"));
  EXPECT_THAT(error(kX, kY, DataConfig::CLASS), HasSubstr("y[2] is 30, a class that no training"));
  EXPECT_THAT(error(kX, NpyOf<float>("<f4", {4, 2}, std::vector<float>(8)), DataConfig::CLASS),
              HasSubstr("y is (4, 2) and x (4, 2), but a sample has one class"));
  EXPECT_THAT(error(kX, NpyOf<float>("<f4", {3}, {1, 2, 3})),
              HasSubstr("y is (3) and x is (4, 2); y must have as many samples"));
  EXPECT_THAT(error(NpyOf<float>("<f4", {}, {1}), kY), HasSubstr("x is (); it must be"));
  EXPECT_THAT(error(NpyOf<float>("<f4", {4, 1, 1, 1, 2}, std::vector<float>(8)), kY),
              HasSubstr("no convolutions in three dimensions: make the depth channels"));
  EXPECT_THAT(error(NpyOf<float>("<f4", {0, 4}, {}), NpyOf<float>("<f4", {0}, {})),
              HasSubstr("has 0 samples"));
  EXPECT_THAT(error(NpyOf<float>("<f4", {4, 0}, {}), kY), HasSubstr("a sample is empty"));
  EXPECT_THAT(error(NpyOf<float>("<f4", {4, 2}, std::vector<float>(8), "True"), kY),
              HasSubstr("a.npz: x: it is in Fortran order; convert it first"));
  EXPECT_THAT(error(NpyOf<double>(">f8", {4}, {1, 2, 3, 4}), kY),
              HasSubstr("its elements are >f8, which is not read"));
  EXPECT_THAT(Error({.path = WritePair(kX, NpyOf<uint64_t>("<U2", {4}, {0, 0, 0, 0}))}),
              AllOf(HasSubstr("a.npz: y: its elements are texts"),
                    HasSubstr("numpy.unique(y, return_inverse=True)")));
  EXPECT_THAT(Error({.path = Write("one.npy", kX)}),
              AllOf(HasSubstr("one.npy is one array"), HasSubstr("a folder with x.npy and y.npy")));
  EXPECT_THAT(error(NpyOf<double>("<f8", {5, 2}, {1, 2, 3, 4}), kY),
              HasSubstr("its shape is not that of its bytes"));
  std::string records = NpyOf<float>("<f4", {4}, {1, 2, 3, 4});
  records.replace(records.find("'<f4', "), 7, "[('a','");
  EXPECT_THAT(error(records, kY), AllOf(HasSubstr("its elements are records"),
                                        HasSubstr("structured_to_unstructured")));
  EXPECT_THAT(error("x", kY), HasSubstr("it does not begin as an array"));
  EXPECT_THAT(Error({.path = Write("a.npz", ZipOf({{"data.npy", kX}}))}),
              HasSubstr("has no array x, but data.npy"));
  EXPECT_THAT(Error({.path = folder_.path()}), HasSubstr("x.npy"));
  EXPECT_THAT(
      Error({.path = WritePair(kX, kY),
             .test = Write("b.npz", ZipOf({{"x.npy", NpyOf<float>("<f4", {1, 3}, {1, 2, 3})},
                                           {"y.npy", NpyOf<float>("<f4", {1}, {1})}}))}),
      AllOf(StartsWith(folder_.File("b.npz")), HasSubstr("only the number of samples")));
}

TEST_F(ArraysTest, SortedClassesAreNoted) {
  constexpr size_t kRows = 40;
  const std::string x = NpyOf("<f4", {kRows, 1}, std::vector<float>(kRows));
  std::vector<int32_t> y;
  for (size_t i = 0; i < kRows; ++i) y.push_back(i < kRows / 2 ? 3 : 7);
  ArraysOptions options = {.path = WritePair(x, NpyOf("<i4", {kRows}, y)), .test_fraction = 0.25};
  EXPECT_THAT(Load(options).note, HasSubstr("a.npz: all 10 test rows, the last of the file, have "
                                            "the class 7; mix the rows"));
  options.test = options.path;
  EXPECT_EQ(Load(options).note, "2 classes: 3, 7");
  options.test = "";
  options.kind = DataConfig::NUMBER;
  EXPECT_EQ(Load(options).note, "");
  std::ranges::sort(y, std::greater());
  y.back() = 1;
  options.path = WritePair(x, NpyOf("<i4", {kRows}, y));
  options.test_fraction = 0.5;
  EXPECT_THAT(Load(options).note,
              HasSubstr("all 20 test rows, the last of the file, have a smaller "
                        "y than any other; mix the rows"));
}

TEST_F(ArraysTest, NumbersStayAsTheyAreIfAsked) {
  const TrainAndTest sets =
      Load({.path = WritePair(NpyOf<float>("<f4", {4, 2}, {1, 50, 2, 60, 3, 70, 4, 80}),
                              NpyOf<float>("<f4", {4}, {100, 200, 300, 400})),
            .test_fraction = 0.25,
            .kind = DataConfig::NUMBER,
            .standardize = false});
  EXPECT_THAT(RowOf(*sets.train, 1).values, ElementsAre(2, 60));
  EXPECT_THAT(RowOf(*sets.train, 1).targets, ElementsAre(200));
  EXPECT_EQ(sets.preparation.planes(1).mean(), 0) << "so that new samples stay, too";
}

TEST_F(ArraysTest, NumbersThatAreNoClassesAreTold) {
  const auto error = [&](double each) {
    constexpr size_t kRows = 60;
    std::vector<double> y;
    for (size_t i = 0; i < kRows; ++i) y.push_back(each * static_cast<double>(i));
    const std::string x = NpyOf("<f4", {kRows, 1}, std::vector<float>(kRows));
    return Error({.path = WritePair(x, NpyOf("<f8", {kRows}, y)), .test_fraction = 0.1});
  };
  EXPECT_THAT(error(0.25), HasSubstr("a.npz: y has 54 different numbers, as 0.25: to predict a "
                                     "number, set model.loss: squared (or smooth_l1, poisson)"));
  EXPECT_THAT(error(1000), HasSubstr("y[54] is 54000, a class that no training sample has; to "
                                     "predict a number, set model.loss: squared; or mix"));
}

TEST_F(ArraysTest, ChannelsAtTheEndAreTold) {
  const std::string x = NpyOf<float>("<f4", {3, 5, 6, 3}, std::vector<float>(270));
  const std::string masks = NpyOf<uint8_t>("|u1", {3, 5, 6}, std::vector<uint8_t>(90));
  EXPECT_THAT(Error({.path = WritePair(x, masks), .test_fraction = 0.3}),
              AllOf(HasSubstr("x is (3, 5, 6, 3), it seems samples x height x width x channels"),
                    EndsWith("x.transpose(0, 3, 1, 2)")));
  const std::string y = NpyOf<int32_t>("<i4", {3}, {1, 0, 1});
  EXPECT_THAT(Load({.path = WritePair(x, y), .test_fraction = 0.3}).note,
              AllOf(HasSubstr("read as samples x channels"),
                    HasSubstr("x.transpose(0, 3, 1, 2)\n2 classes: 0, 1; no test sample has 0")));
  const std::string first = NpyOf<float>("<f4", {3, 3, 5, 6}, std::vector<float>(270));
  EXPECT_THAT(Load({.path = WritePair(first, y), .test_fraction = 0.3}).note,
              StartsWith("2 classes"));
}

TEST_F(ArraysTest, OneHotClassesAreTold) {
  const auto error = [&](const std::string& x, const std::string& y) {
    return Error({.path = WritePair(x, y), .test_fraction = 0.3});
  };
  const std::string image = NpyOf<float>("<f4", {2, 1, 1, 3}, std::vector<float>(6));
  EXPECT_THAT(
      error(image, NpyOf<uint8_t>("|u1", {2, 2, 1, 3}, {1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1})),
      AllOf(HasSubstr("y is (2, 2, 1, 3) with one 1 for each class (one-hot)"),
            EndsWith("convert it with y.argmax(1)")));
  EXPECT_THAT(error(image, NpyOf<float>("<f4", {2, 1, 3, 2}, {1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0})),
              EndsWith("convert it with y.argmax(-1)"));
  EXPECT_THAT(error(kX, NpyOf<float>("<f4", {4, 2}, {1, 0, 0, 1, 1, 0, 0, 1})),
              EndsWith("convert it with y.argmax(1)"));
  EXPECT_THAT(error(kX, NpyOf<float>("<f4", {4, 2}, {1, 0, 0, 1, 1, 1, 0, 1})),
              HasSubstr("set model.loss to sigmoid if they are labels"));
  const std::string classes = NpyOf<int32_t>("<i4", {4}, {0, 1, 0, 0});
  EXPECT_EQ(Load({.path = WritePair(kX, classes), .test_fraction = 0.3}).train->shape().classes, 2);
}

TEST_F(ArraysTest, ClassesKeepAllTheirDigits) {
  const auto pair = [&](int64_t a, int64_t b) {
    return WritePair(kX, NpyOf<int64_t>("<i8", {4}, {a, b, a, b}));
  };
  constexpr int64_t kLargest = (int64_t{1} << 53) - 1;
  EXPECT_THAT(
      Load({.path = pair(kLargest - 1, kLargest), .test_fraction = 0.3}).preparation.classes(),
      ElementsAre("9007199254740990", "9007199254740991"));
  EXPECT_THAT(Error({.path = pair(kLargest + 2, kLargest + 3), .test_fraction = 0.3}),
              AllOf(HasSubstr("a.npz: y[0] is 9.0072e+15"), HasSubstr("numpy.unique")));
}

TEST_F(ArraysTest, OneAxisIsOneColumn) {
  const TrainAndTest sets = Load({.path = WritePair(NpyOf<float>("<f4", {4}, {1, 3, 5, 7}), kY),
                                  .test_fraction = 0.5,
                                  .kind = DataConfig::NUMBER});
  EXPECT_EQ(sets.train->shape().ImageText(), "1 values");
  EXPECT_THAT(RowOf(*sets.test, 0).values, ElementsAre(3));
}

TEST_F(ArraysTest, AxesOfTargetsAreFlattened) {
  const std::string y = NpyOf<float>("<f4", {4, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const TrainAndTest sets =
      Load({.path = WritePair(kX, y), .test_fraction = 0.5, .kind = DataConfig::NUMBER});
  EXPECT_EQ(sets.train->shape().targets, 2);
  EXPECT_THAT(sets.targets.names, ElementsAre("y0", "y1"));
  EXPECT_THAT(RowOf(*sets.test, 0).targets, ElementsAre(3, 3));
}

const std::string kTokens = NpyOf<int64_t>("<i8", {3, 2}, {4, 0, 2, 3, 9, 1});

TEST_F(ArraysTest, TokensHaveOneLabel) {
  const TrainAndTest sets = Load({.path = WritePair(kTokens, NpyOf<int32_t>("<i4", {3}, {5, 7, 5})),
                                  .test_fraction = 0.3,
                                  .input = ArrayInput::TOKENS});
  const SampleShape shape = sets.train->shape();
  EXPECT_TRUE(shape.HasOneLabel());
  EXPECT_EQ(shape.ImageText(), "2 tokens");
  EXPECT_EQ(shape.vocabulary, 10) << "the test's tokens count";
  EXPECT_EQ(shape.classes, 2);
  const Sequence second = ReadSequence(*sets.train, 1), test = ReadSequence(*sets.test, 0);
  EXPECT_THAT(second.tokens, ElementsAre(2, 3));
  EXPECT_THAT(second.labels, ElementsAre(1));
  EXPECT_THAT(test.tokens, ElementsAre(9, 1));
  EXPECT_EQ(sets.preparation.planes_size(), 0);
}

TEST_F(ArraysTest, EachTokenMayHaveALabel) {
  const std::string y = NpyOf<int64_t>("<i8", {3, 2}, {1, -100, 0, 12, 1, 1});
  const TrainAndTest sets =
      Load({.path = WritePair(kTokens, y), .test_fraction = 0.3, .input = ArrayInput::TOKENS});
  const SampleShape shape = sets.train->shape();
  EXPECT_EQ(shape.source, 0);
  EXPECT_EQ(shape.classes, 13);
  EXPECT_EQ(shape.vocabulary, 13);
  EXPECT_THAT(ReadSequence(*sets.train, 0).labels, ElementsAre(1, -1));
  EXPECT_THAT(ReadSequence(*sets.train, 1).labels, ElementsAre(0, 12));
}

TEST_F(ArraysTest, EachPixelMayHaveALabel) {
  const std::string x = NpyOf<float>("<f4", {3, 2, 1, 2}, std::vector<float>(12));
  const std::string y = NpyOf<uint8_t>("|u1", {3, 1, 2}, {0, 2, 255, 1, 1, 2});
  const TrainAndTest sets = Load({.path = WritePair(x, y), .test_fraction = 0.3});
  const SampleShape shape = sets.train->shape();
  EXPECT_TRUE(shape.label_each_pixel);
  EXPECT_EQ(shape.classes, 3);
  std::vector<float> values(4);
  std::vector<int32_t> labels(2);
  ASSERT_TRUE(sets.train->Read({0, 1}, {.values = values, .labels = labels}).ok());
  EXPECT_THAT(labels, ElementsAre(-1, 1));
}

TEST_F(ArraysTest, ClassesThatNoPixelHasAreNoted) {
  const std::string x = NpyOf<float>("<f4", {3, 2, 1, 2}, std::vector<float>(12));
  const std::string y = NpyOf<uint8_t>("|u1", {3, 1, 2}, {0, 1, 1, 200, 1, 2});
  const TrainAndTest sets = Load({.path = WritePair(x, y), .test_fraction = 0.3});
  EXPECT_THAT(sets.note, AllOf(HasSubstr("198 of the 201 classes have no training sample"),
                               HasSubstr("the largest label is 200 ("), HasSubstr("y[1])")));
}

TEST_F(ArraysTest, MasksMayBeTruthValues) {
  const std::string x = NpyOf<float>("<f4", {3, 2, 1, 2}, std::vector<float>(12));
  const std::string y = NpyOf<uint8_t>("|b1", {3, 1, 2}, {0, 1, 1, 0, 1, 1});
  const TrainAndTest sets = Load({.path = WritePair(x, y), .test_fraction = 0.3});
  EXPECT_TRUE(sets.train->shape().label_each_pixel);
  EXPECT_EQ(sets.train->shape().classes, 2);
}

TEST_F(ArraysTest, MasksOfATestAreWholeNumbersToo) {
  const std::string x = NpyOf<float>("<f4", {1, 2, 1, 2}, std::vector<float>(4));
  const auto test = [&](float last) {
    const std::string y = NpyOf<float>("<f4", {1, 1, 2}, {0, last});
    return ArraysOptions{.path = WritePair(x, NpyOf<uint8_t>("|u1", {1, 1, 2}, {0, 1})),
                         .test = Write("t.npz", ZipOf({{"x.npy", x}, {"y.npy", y}}))};
  };
  EXPECT_EQ(Load(test(1)).test->size(), 1u);
  EXPECT_THAT(Error(test(0.7f)),
              AllOf(HasSubstr("t.npz: y[0] has 0.7"), HasSubstr("classes are whole numbers")));
}

TEST_F(ArraysTest, ErrorsSayHowMasksAreConverted) {
  const auto error = [&](const std::string& y) {
    const std::string x = NpyOf<float>("<f4", {3, 2, 2, 2}, std::vector<float>(24));
    return Error({.path = WritePair(x, y), .test_fraction = 0.3});
  };
  const std::vector<float> floats = {0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1};
  const std::vector<uint8_t> bytes = {0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1};
  EXPECT_THAT(error(NpyOf("<f4", {3, 2, 2}, floats)),
              HasSubstr("y is (3, 2, 2) of floats, but classes of pixels are whole numbers of the "
                        "axes (3, 2, 2); convert it with y.astype('uint8')"));
  EXPECT_THAT(error(NpyOf("<f4", {3, 2, 2}, std::vector<float>(12, 0.5f))),
              HasSubstr("but a sample has one class, or each"));
  EXPECT_THAT(error(NpyOf("|u1", {3, 1, 2, 2}, bytes)),
              AllOf(HasSubstr("y is (3, 1, 2, 2), but"), EndsWith("convert it with y[:, 0]")));
  EXPECT_THAT(error(NpyOf("|u1", {3, 2, 2, 1}, bytes)), EndsWith("convert it with y[..., 0]"));
  EXPECT_THAT(error(NpyOf("<f4", {3, 1, 2, 2}, floats)),
              EndsWith("convert it with y[:, 0].astype('uint8')"));
  EXPECT_THAT(
      error(NpyOf<uint8_t>("|u1", {3, 2, 2}, {0, 255, 255, 0, 0, 0, 0, 255, 255, 0, 255, 255})),
      HasSubstr("y has 255, which is not counted, and no class from 1 to 254 in the "
                "training samples; if 255 is the class 1, divide by 255"));
}

TEST_F(ArraysTest, WrongTokensAndLabelsOfPlacesAreErrors) {
  const auto error = [&](const std::string& x, const std::string& y) {
    return Error({.path = WritePair(x, y), .test_fraction = 0.3, .input = ArrayInput::TOKENS});
  };
  const std::string y = NpyOf<int32_t>("<i4", {3}, {5, 7, 5});
  EXPECT_THAT(error(NpyOf<int32_t>("<i4", {3, 2}, {4, 0, 2, -3, 9, 1}), y),
              HasSubstr("a.npz: x[1]: -3 is no token"));
  EXPECT_THAT(error(NpyOf<float>("<f4", {3, 2}, {4, 0, 2, 3, 9, 1}), y),
              HasSubstr("x is (3, 2) of other than whole numbers, but the model takes tokens"));
  EXPECT_THAT(error(NpyOf<int32_t>("<i4", {3, 1, 2}, {4, 0, 2, 3, 9, 1}), y),
              HasSubstr("x is (3, 1, 2), but the model takes tokens"));
  EXPECT_THAT(error(kTokens, NpyOf<int32_t>("<i4", {3, 3}, std::vector<int32_t>(9))),
              HasSubstr("y is (3, 3) and x (3, 2), but a sample has one class, or each"));
  EXPECT_THAT(error(kTokens, NpyOf<int32_t>("<i4", {3, 2}, {0, 1, 1, 0, 2, 0})),
              HasSubstr("y[2] has the class 2, and those of the training samples end at 1"));
  EXPECT_THAT(error(kTokens, NpyOf<int32_t>("<i4", {3, 2}, std::vector<int32_t>(6))),
              HasSubstr("y has no class above 0"));
  EXPECT_THAT(error(kTokens, NpyOf<int32_t>("<i4", {3, 2}, std::vector<int32_t>(6, -100))),
              HasSubstr("y has numbers below 0 alone in the training samples"));
  EXPECT_THAT(
      error(kTokens, NpyOf<float>("<f4", {3, 2}, {0, 1, 1, -100, 1, 0})),
      HasSubstr("y is (3, 2) of floats, but classes of tokens are whole numbers of the axes "
                "(3, 2); convert it with y.astype('int64')"));
  EXPECT_THAT(error(kTokens, NpyOf<int32_t>("<i4", {3, 2}, {0, 1, 100000, 0, 2, 0})),
              HasSubstr("y[1] has the class 100000; classes are below 100000"));
}

TEST_F(ArraysTest, DamagedArchivesAreErrors) {
  const std::string whole = ZipOf({{"x.npy", kX}, {"y.npy", kY}}, true);
  for (size_t size = 0; size < whole.size(); size += 7) {
    EXPECT_THAT(Error({.path = Write("a.npz", whole.substr(0, size))}), HasSubstr("a.npz"));
  }
  std::string changed = whole;
  changed[60] ^= 0x10;
  EXPECT_THAT(Error({.path = Write("a.npz", changed)}), HasSubstr("bytes of x.npy are damaged"));
}

}  // namespace
}  // namespace psgd
