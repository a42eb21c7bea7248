#include "data/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/unit/data/row_samples.h"
#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class TableTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    WriteFile(folder_.File(name), text);
    return folder_.File(name);
  }
  TrainAndTest Load(const TableOptions& options) {
    auto sets = LoadTable(options);
    EXPECT_TRUE(sets.ok()) << sets.status();
    return *std::move(sets);
  }
  std::string Error(const TableOptions& options) {
    const auto status = LoadTable(options).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }
  // The error of a file with these lines, of which "y" is to be predicted.
  std::string ErrorOf(const std::string& text, TableOptions options = {}) {
    options.path = Write("t.csv", text);
    options.test_fraction = 0.25;
    if (options.target.empty()) options.target = {"y"};
    return Error(options);
  }

  ScratchFolder folder_;
};

constexpr char kHouses[] =
    "rooms,near,price\n"
    "2,sea,100\n"
    "4,,300\n"
    ",hill,200\n"
    "6,moor,600\n";

TEST_F(TableTest, NumbersAreNormalizedAndCategoriesAreOneHot) {
  const TrainAndTest sets = Load({.path = Write("a.csv", kHouses),
                                  .test_fraction = 0.25,
                                  .target = {"price"},
                                  .kind = DataConfig::NUMBER});
  ASSERT_EQ(sets.train->size(), 3u);
  ASSERT_EQ(sets.test->size(), 1u);
  const SampleShape shape = sets.train->shape();
  EXPECT_EQ(shape.ImageText(), "4 values");  // rooms; hill, sea and missing
  EXPECT_EQ(shape.classes, 1);
  EXPECT_EQ(shape.targets, 1);
  EXPECT_TRUE(shape.IsImage());
  // The training rows have rooms 2 and 4: mean 3, deviation 1.
  EXPECT_THAT(RowOf(*sets.train, 0).values, ElementsAre(-1, 0, 1, 0));
  EXPECT_THAT(RowOf(*sets.train, 1).values, ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(RowOf(*sets.train, 2).values, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(RowOf(*sets.test, 0).values, ElementsAre(3, 0, 0, 1)) << "a moor is unknown";

  EXPECT_EQ(sets.targets.kind, Targets::Kind::kNumber);
  EXPECT_THAT(sets.targets.names, ElementsAre("price"));
  EXPECT_EQ(sets.targets.scales[0].mean, 200);
  const float deviation = std::sqrt(20000.0f / 3);
  EXPECT_NEAR(sets.targets.scales[0].deviation, deviation, 1e-4);
  EXPECT_THAT(RowOf(*sets.test, 0).targets, ElementsAre(FloatNear(400 / deviation, 1e-5)));
  EXPECT_EQ(RowOf(*sets.test, 0).label, 0) << "it counts";
}

TEST_F(TableTest, ClassesAreInTheOrderOfTheirNumbersOrNames) {
  const TrainAndTest numbers = Load({.path = Write("a.csv", "x,y\n1,10\n2,9\n3,-1\n4,10\n"),
                                     .test_fraction = 0.25,
                                     .target = {"y"}});
  EXPECT_EQ(numbers.train->shape().classes, 3);
  EXPECT_EQ(numbers.train->shape().targets, 0);
  EXPECT_EQ(numbers.targets.kind, Targets::Kind::kNone);
  EXPECT_EQ(RowOf(*numbers.train, 0).label, 2);
  EXPECT_EQ(RowOf(*numbers.train, 1).label, 1);
  EXPECT_EQ(RowOf(*numbers.train, 2).label, 0);
  EXPECT_EQ(RowOf(*numbers.test, 0).label, 2);
  const TrainAndTest names = Load({.path = Write("b.csv", "x,y\n1,yes\n2,no\n3,10\n4,no\n"),
                                   .test_fraction = 0.25,
                                   .target = {"y"}});
  EXPECT_EQ(RowOf(*names.train, 0).label, 2);
  EXPECT_EQ(RowOf(*names.train, 2).label, 0);
  EXPECT_EQ(RowOf(*names.test, 0).label, 1);
  // In any order of the rows: beside a name that is no number, numbers are names too.
  const auto note = [&](const std::vector<std::string>& classes, size_t first) {
    std::string rows = "x,y\n";
    for (size_t i = first; i < first + 16; ++i) {
      absl::StrAppend(&rows, i, ",", classes[i % classes.size()], "\n");
    }
    return Load({.path = Write("c.csv", rows), .test_fraction = 0.25, .target = {"y"}}).note;
  };
  for (size_t first = 0; first < 3; ++first) {
    EXPECT_THAT(note({"9", "10", "\"5,5\""}, first), HasSubstr("3 classes: 10, 5,5, 9"));
    EXPECT_THAT(note({"9", "10", "nan"}, first), HasSubstr("3 classes: 10, 9, nan"));
  }
}

TEST_F(TableTest, ATestFileMayHaveItsColumnsInAnotherOrder) {
  const TrainAndTest sets = Load({.path = Write("a.csv", kHouses),
                                  .test = Write("b.csv",
                                                "price;other;near;rooms\n"
                                                "7;1;hill;3\n"),
                                  .target = {"price"},
                                  .kind = DataConfig::NUMBER});
  EXPECT_EQ(sets.train->size(), 4u);
  ASSERT_EQ(sets.test->size(), 1u);
  EXPECT_THAT(RowOf(*sets.test, 0).values, ElementsAre(FloatNear(-0.61237f, 1e-4f), 1, 0, 0, 0));
}

TEST_F(TableTest, SeparatorsQuotesMarksAndGzipAreUnderstood) {
  const std::string wanted = "x,\"a \"\"b\"\", c\",y\r\n1, \"u,v\" ,3\r\n2,w,4\r\n\r\n3,w,5\r\n";
  const TableOptions options = {.path = Write("a.csv", "\xEF\xBB\xBF" + wanted),
                                .test_fraction = 0.3,
                                .target = {"y"},
                                .columns = {"a \"b\", c"},
                                .kind = DataConfig::NUMBER};
  EXPECT_THAT(RowOf(*Load(options).train, 0).values, ElementsAre(1, 0));
  TableOptions packed = options;
  packed.path = Write("a.csv.gz", Gzip(wanted));
  EXPECT_THAT(RowOf(*Load(packed).train, 1).values, ElementsAre(0, 1));
  const TrainAndTest tabs = Load({.path = Write("a.tsv", "a b\ty\n1,5 x\t3\n\t4\nq\t5\n"),
                                  .test_fraction = 0.3,
                                  .target = {"y"},
                                  .kind = DataConfig::NUMBER});
  EXPECT_THAT(RowOf(*tabs.train, 0).values, ElementsAre(1, 0)) << "the text, and missing";
}

TEST_F(TableTest, ListedCategoriesMayBeNumbers) {
  const std::string path = Write("a.csv", "zip,area,y\n8001,1,0\n8002,2,1\n8001,3,0\n");
  const TrainAndTest sets = Load({.path = path,
                                  .test_fraction = 0.3,
                                  .target = {"y"},
                                  .categories = {"zip"},
                                  .kind = DataConfig::COUNT});
  EXPECT_THAT(RowOf(*sets.train, 0).values, ElementsAre(1, 0, -1));
  EXPECT_THAT(RowOf(*sets.test, 0).values, ElementsAre(1, 0, 3));
}

TEST_F(TableTest, SeveralTargetsAreNumbersCountsOrLabels) {
  const std::string path = Write("a.csv", "x,u,v\n1,0,1\n2,1,1\n3,1,0\n4,0,0\n");
  TableOptions options = {.path = path, .test_fraction = 0.25, .target = {"v", "u"}};
  options.kind = DataConfig::LABELS;
  const TrainAndTest labels = Load(options);
  EXPECT_EQ(labels.targets.kind, Targets::Kind::kLabel);
  EXPECT_EQ(labels.train->shape().targets, 2);
  EXPECT_EQ(labels.train->shape().classes, 2);
  EXPECT_THAT(RowOf(*labels.train, 0).targets, ElementsAre(1, 0));
  options.kind = DataConfig::COUNT;
  const TrainAndTest counts = Load(options);
  EXPECT_EQ(counts.targets.kind, Targets::Kind::kCount);
  EXPECT_THAT(RowOf(*counts.train, 2).targets, ElementsAre(0, 1));
  options.kind = DataConfig::NUMBER;
  const TrainAndTest numbers = Load(options);
  for (const NumberScale& scale : numbers.targets.scales) EXPECT_NEAR(scale.mean, 2.0 / 3, 1e-12);
}

TEST_F(TableTest, LabelsMayBeTrueOrFalse) {
  const TrainAndTest sets = Load({.path = Write("a.csv", "x,y\n1,True\n3,False\n1,TRUE\n2,0\n"),
                                  .target = {"y"},
                                  .kind = DataConfig::LABELS});
  EXPECT_THAT(RowOf(*sets.train, 0).targets, ElementsAre(1));
  EXPECT_THAT(RowOf(*sets.train, 1).targets, ElementsAre(0));
  EXPECT_THAT(RowOf(*sets.train, 2).targets, ElementsAre(1));
  EXPECT_THAT(ErrorOf("x,y\n1,yes\n", {.kind = DataConfig::LABELS}),
              AllOf(HasSubstr("labels are 0 or 1, or True or False"),
                    HasSubstr("with pandas: df[column] == \"yes\"")));
  EXPECT_THAT(ErrorOf("x,y\n1,red|blue\n", {.kind = DataConfig::LABELS}),
              HasSubstr("with pandas: df[column].str.get_dummies(\"|\"), and name the columns"));
}

TEST_F(TableTest, MeasuresTheTrainingRowsAlone) {
  const TrainAndTest sets = Load({.path = Write("a.csv", "x,y\n1,1\n3,3\n100,100\n"),
                                  .test_fraction = 0.3,
                                  .target = {"y"},
                                  .kind = DataConfig::NUMBER});
  EXPECT_EQ(sets.targets.scales[0].mean, 2);
  EXPECT_THAT(RowOf(*sets.test, 0).values, ElementsAre(98));
  EXPECT_THAT(RowOf(*sets.test, 0).targets, ElementsAre(98));
}

TEST_F(TableTest, ErrorsOfTheFirstLineNameItAndTheColumn) {
  const std::string file = folder_.File("t.csv");
  EXPECT_THAT(ErrorOf(""), HasSubstr(file + " is empty; its first line must name the columns"));
  EXPECT_THAT(ErrorOf("x,y\n"), HasSubstr("no row below the names of its columns"));
  EXPECT_THAT(ErrorOf("x,x,y\n1,2,3\n"), HasSubstr(file + ":1: two columns are named \"x\""));
  EXPECT_THAT(ErrorOf("x,,y\n1,2,3\n"), HasSubstr("a column has no name"));
  EXPECT_THAT(ErrorOf(",x,y\n0,2,3\n"), HasSubstr("the first column has no name, as the index that "
                                                  "pandas writes; write the table with "
                                                  "to_csv(FILE, index=False)"));
  EXPECT_THAT(ErrorOf("{\"x\": 1, \"y\": 2}\n"), HasSubstr("this is JSON: write it as CSV (pandas: "
                                                           "read_json(FILE, lines=True)"));
  EXPECT_THAT(ErrorOf("x,price\n1,2\n", {.target = {"prise"}}),
              AllOf(StartsWith(file + ":1: no column is named \"prise\", as data.target says"),
                    HasSubstr("did you mean \"price\"?")));
  EXPECT_THAT(ErrorOf("x,z\n1,2\n"), HasSubstr("the columns are x, z"));
  EXPECT_THAT(ErrorOf("1,2.5\n1,2\n"),
              HasSubstr("the columns are 1, 2.5; is the line of column names missing?"));
  EXPECT_THAT(ErrorOf("0,1.5,Riga\n1,2,Wien\n"), HasSubstr("is the line of column names missing?"));
  EXPECT_THAT(ErrorOf("\x01\x02,y\n"), HasSubstr(file + ":1: this is no text in ASCII or UTF-8"));
  EXPECT_THAT(ErrorOf("\x93NUMPY\x01"), HasSubstr(file + ":1: this is a NumPy file"));
  EXPECT_THAT(ErrorOf("PK\x03\x04z"), HasSubstr("data.format: arrays reads an .npz file"));
  EXPECT_THAT(ErrorOf("PAR1"), HasSubstr("this is Parquet, which psgd does not read"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n", {.columns = {"x", "z"}}), HasSubstr("as data.columns says"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n", {.columns = {"y"}}),
              HasSubstr("column \"y\" is in data.columns and in data.target"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n", {.categories = {"w"}}), HasSubstr("as data.categories says"));
  EXPECT_THAT(ErrorOf("y\n1\n"), HasSubstr("all columns are targets"));
  EXPECT_THAT(Error({.path = Write("a.csv", "x,y\n1,2\n3,4\n"),
                     .test = Write("b.csv", "y\n1\n"),
                     .target = {"y"}}),
              AllOf(StartsWith(folder_.File("b.csv") + ":1: no column is named \"x\""),
                    HasSubstr("as the training file says")));
  EXPECT_THAT(Error({.path = file}), HasSubstr("data.target is missing"));
  EXPECT_THAT(ErrorOf("x,y,z\n1,2,3\n", {.target = {"y", "z"}}),
              HasSubstr("a sample has one class; set model.loss to sigmoid"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n", {.target = {"y", "y"}, .kind = DataConfig::NUMBER}),
              HasSubstr("names \"y\" twice"));
}

TEST_F(TableTest, ErrorsOfARowNameItsLineAndColumn) {
  const std::string file = folder_.File("t.csv");
  const TableOptions number = {.kind = DataConfig::NUMBER};
  EXPECT_THAT(ErrorOf("x,y\n1,2\n\n3\n"),
              StartsWith(file + ":4: 1 fields, but the first line names 2 columns"));
  EXPECT_THAT(ErrorOf("x,y\n1,\"2\n"), StartsWith(file + ":2: the quote before \"2 does not end"));
  EXPECT_THAT(ErrorOf("x,y\n\"1\"1,2\n"), HasSubstr(":2: after the quoted field \"1\""));
  EXPECT_THAT(ErrorOf("x,z,y\n1,1,2\n1,old,3\n", {.categories = {"x"}}),
              StartsWith(file + ":3: column \"z\": \"old\" is no number"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\ninf,3\n2,1\n3,1\n"),
              StartsWith(file + ": column \"x\": line 3: \"inf\" is no finite number"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n1,NULL\n", number), HasSubstr(":3: column \"y\": the target is "
                                                               "missing"));
  EXPECT_THAT(ErrorOf("x;y\n1;2\n1;\"948,96\"\n", number),
              AllOf(HasSubstr(":3: column \"y\": \"948,96\" is no number; it has a decimal comma: "
                              "write 948.96 (pandas: read_csv(FILE, decimal=\",\")"),
                    Not(HasSubstr("class"))));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n1,inf\n", number),
              StartsWith(file + ":3: column \"y\": \"inf\" is no finite number"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n1,-1e31\n", number),
              HasSubstr(":3: column \"y\": \"-1e31\" is above 1e30"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n1,\n"), HasSubstr(":3: column \"y\": the target is missing"));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n1,cheap\n", number),
              AllOf(StartsWith(file + ":3: column \"y\": \"cheap\" is no number"),
                    HasSubstr("if it is a class, set model.loss to cross_entropy")));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n", {.kind = DataConfig::LABELS}),
              HasSubstr(":2: column \"y\": 2 is neither 0 nor 1"));
  EXPECT_THAT(ErrorOf("x,y\n1,-2\n", {.kind = DataConfig::COUNT}),
              HasSubstr(":2: column \"y\": -2 is below 0, which no count is"));
}

TEST_F(TableTest, ErrorsOfTheWholeFileSayWhatToDo) {
  const std::string file = folder_.File("t.csv");
  EXPECT_THAT(ErrorOf("x,y\n1,a\n2,b\n3,a\n4,c\n"),
              StartsWith(file + ": column \"y\": line 5: no training row has this class"));
  EXPECT_THAT(Error({.path = Write("a.csv", "x,y\n1,a\n2,b\n"),
                     .test = Write("b.csv", "x,y\n1,b\n2,c\n"),
                     .target = {"y"}}),
              HasSubstr("line 3 of " + folder_.File("b.csv") + ": no training row has this class"));
  EXPECT_THAT(ErrorOf("x,y\n1,a\n2,a\n3,a\n4,b\n"), HasSubstr("have the same class"));
  EXPECT_THAT(ErrorOf("x,y\n,1\n,2\n,3\n5,2\n"),
              AllOf(HasSubstr("column \"x\": no training row has a value"),
                    HasSubstr("in data.columns, without this one")));
  EXPECT_THAT(ErrorOf("x,y\n1,2\n"), HasSubstr("1 samples are too few to keep 0.25 of them"));
  std::string mistyped = "x,y\n";
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&mistyped, i == 7 ? "1O" : absl::StrCat(i), ",", i % 2, "\n");
  }
  EXPECT_THAT(ErrorOf(mistyped),
              HasSubstr("column \"x\": line 9: \"1O\" is no number, as 29 other fields are"));
  const TableOptions known = {.path = Write("a.csv", mistyped),
                              .test_fraction = 0.25,
                              .target = {"y"},
                              .categories = {"x"}};
  EXPECT_GT(Load(known).train->size(), 20u);
  std::string names = "x,y\n", numbers = names;
  for (int i = 0; i < 1002; ++i) {
    absl::StrAppend(&names, "house", i, ",", i % 2, "\n");
    absl::StrAppend(&numbers, i, ",", 0.5 + i, "\n");
  }
  EXPECT_THAT(ErrorOf(names),
              HasSubstr("column \"x\": line 2: more than 1000 different values, and text, "
                        "as \"house0\": too many for categories"));
  EXPECT_THAT(ErrorOf(numbers),
              HasSubstr(":1002: column \"y\": data.target y has real numbers, as "
                        "1000.5: set model.loss: squared (or smooth_l1, poisson)"));
  std::string whole = "x,y\n", few = whole, halves = whole, versions = whole;
  for (int i = 0; i < 1002; ++i) {
    absl::StrAppend(&whole, i % 7, ",", i, "\n");
    if (i < 40) absl::StrAppend(&few, i % 7, ",", 0.25 * i, "\n");
    if (i < 40) absl::StrAppend(&halves, i % 7, ",", 0.5 * (i % 9), "\n");
    if (i < 100) absl::StrAppend(&versions, i % 7, ",", 1 + 0.5 * (i % 25), "\n");
  }
  EXPECT_THAT(ErrorOf(whole), AllOf(HasSubstr(":1002: column \"y\": more than 1000 different"),
                                    HasSubstr("set model.loss to squared")));
  EXPECT_THAT(ErrorOf(few), HasSubstr("column \"y\": data.target y has real numbers"));
  const TableOptions ratings = {
      .path = Write("a.csv", halves), .test_fraction = 0.25, .target = {"y"}};
  EXPECT_EQ(Load(ratings).train->shape().classes, 9) << "few, as ratings in halves of a star";
  EXPECT_EQ(Load({.path = Write("v.csv", versions), .test_fraction = 0.25, .target = {"y"}})
                .train->shape()
                .classes,
            25)
      << "they come again";
}

TEST_F(TableTest, TextsInAColumnOfManyNumbersHaveTheirLines) {
  const std::string file = folder_.File("t.csv");
  std::string numbers, commas, sentences;
  for (int i = 0; i < 1002; ++i) {
    absl::StrAppend(&numbers, i, ",1\n");
    absl::StrAppend(&commas, "\"", i, ",5\",1\n");
    absl::StrAppend(&sentences, "it is ", i, ",1\n");
  }
  const auto error = [&](const std::string& rows) {
    return ErrorOf("x,y\n" + rows, {.kind = DataConfig::NUMBER});
  };
  EXPECT_THAT(error(numbers + "1x,1\n"),
              AllOf(StartsWith(file + ": column \"x\": line 1004: \"1x\" is no number, as 1002 "
                                      "other fields are; correct it"),
                    HasSubstr("or leave the column out (data.columns")));
  EXPECT_THAT(error("5,1\n\"1,5\",1\n" + numbers),
              HasSubstr("line 3: \"1,5\" is no number; it has a decimal comma: write 1.5 (pandas"));
  EXPECT_THAT(
      error("5,1\n\"-2,361\",1\n" + numbers),
      HasSubstr("it has a decimal comma or one of thousands: write -2.361 or -2361 (pandas: "
                "read_csv(FILE, decimal=\",\" or thousands=\",\"), then to_csv("));
  EXPECT_THAT(error("5,1\n\"0,361\",1\n" + numbers), Not(HasSubstr("thousands")));
  EXPECT_THAT(error("5,1\n\"2361,500\",1\n" + numbers), Not(HasSubstr("thousands")));
  EXPECT_THAT(error("5,1\n" + commas),
              AllOf(HasSubstr("line 3: \"0,5\" is no number; it has a decimal comma: write 0.5"),
                    HasSubstr("if its values are names, list the column in data.categories")));
  EXPECT_THAT(error(sentences), HasSubstr("set data.format: text_classes and data.columns"));
}

TEST_F(TableTest, WhatTheColumnsBecomeIsNoted) {
  std::string rows = "id,built,city,price,y\n";
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&rows, (i * 7 + 3) % 30, ",19", 10 + i, "-01-01,", i % 2 == 0 ? "Riga" : "Wien",
                    ",", 3 * i, ",", i % 2, "\n");
  }
  const std::string path = Write("h.csv", rows);
  EXPECT_EQ(
      Load({.path = path, .test_fraction = 0.1, .target = {"y"}}).note,
      path +
          " becomes 31 inputs: numbers id, price; categories built (27 values), city "
          "(2 values); row numbers, it seems, in id: leave them out if so (data.columns names "
          "the inputs)\n"
          "most rows have a text of their own in built, which tells nothing of other rows: leave "
          "that out (data.columns names the inputs), or write it as numbers, as the year and month "
          "of a date\n2 classes: 0, 1");
  EXPECT_EQ(Load({.path = path, .target = {"y"}, .columns = {"price"}}).note,
            path + " becomes 1 input: numbers price; left out id, built, city\n2 classes: 0, 1");
}

TEST_F(TableTest, NumbersStayAsTheyAreIfAsked) {
  TableOptions options = {.path = Write("a.csv", "x,c,y\n1,a,10\n3,b,20\n5,a,30\n"),
                          .test_fraction = 0.25,
                          .target = {"y"},
                          .kind = DataConfig::NUMBER,
                          .standardize = false};
  const TrainAndTest sets = Load(options);
  EXPECT_THAT(RowOf(*sets.train, 1).values, ElementsAre(3, 0, 1));
  EXPECT_THAT(RowOf(*sets.train, 1).targets, ElementsAre(20));
  options.path = Write("m.csv", "x,c,y\n1,a,10\nNA,b,20\n5,a,30\n");
  EXPECT_THAT(Error(options), HasSubstr("column \"x\": line 3: the number is missing"));
}

// As Excel, databases and Python write them.
TEST_F(TableTest, NumbersThatAreMissingOrHaveCommasAreNoCategories) {
  constexpr const char* kMarks[] = {"NULL", "None", "n/a", "-", "NaN", "<NA>", "", "NA"};
  std::string marked = "x;city;y\n", commas = marked, unknown = marked;
  for (int i = 0; i < 40; ++i) {
    const std::string rest = absl::StrCat(";", i % 2 == 0 ? "None" : "Wien", ";", i % 2, "\n");
    absl::StrAppend(&marked, i % 5 == 0 ? kMarks[i / 5] : absl::StrCat(i), rest);
    absl::StrAppend(&unknown, i % 5 == 0 ? "unknown" : absl::StrCat(i), rest);
    absl::StrAppend(&commas, i, ",", i % 10, rest);
  }
  const TrainAndTest sets =
      Load({.path = Write("m.csv", marked), .test_fraction = 0.25, .target = {"y"}});
  EXPECT_THAT(sets.note, HasSubstr("3 inputs: numbers x (6 of 40 marked missing, as \"NULL\"); "
                                   "categories city (2 values)"));
  EXPECT_EQ(RowOf(*sets.train, 0).values[0], 0) << "the mean";
  EXPECT_THAT(ErrorOf(commas), HasSubstr("column \"x\": line 2: \"0,0\" is no number; it has a "
                                         "decimal comma: write 0.0"));
  EXPECT_THAT(ErrorOf(unknown), HasSubstr("column \"x\": line 2: \"unknown\" is no number, as 32 "
                                          "other fields are; correct it, leave the field empty"));
  std::string target = "x;y\n";
  for (int i = 0; i < 40; ++i) absl::StrAppend(&target, i, ";", 100 + i, ",25\n");
  EXPECT_THAT(ErrorOf(target), AllOf(HasSubstr("data.target y has real numbers, as 139,25: set "
                                               "model.loss: squared"),
                                     HasSubstr("decimal comma: write 139.25")));
}

// In a column of strands, for example, "-" is a name.
TEST_F(TableTest, ManyMarksBesideFewNumbersAreNames) {
  const auto note = [&](int codes, int marked, const char* mark) {
    std::string rows = "x,y\n";
    for (int i = 0; i < 400; ++i) {
      absl::StrAppend(&rows, i % marked == 1 ? mark : absl::StrCat(i / 2 % codes), ",", i % 3,
                      "\n");
    }
    return Load({.path = Write("c.csv", rows), .test_fraction = 0.25, .target = {"y"}}).note;
  };
  EXPECT_THAT(note(1, 2, "-"), HasSubstr("becomes 2 inputs: categories x (2 values)"));
  EXPECT_THAT(note(3, 4, "None"), HasSubstr("categories x (4 values)"));
  EXPECT_THAT(note(3, 40, "None"), HasSubstr("numbers x (10 of 400 marked missing, as \"None\")"));
  EXPECT_THAT(note(50, 4, "None"), HasSubstr("numbers x (100 of 400 marked"));
  EXPECT_THAT(note(3, 4, "nan"), HasSubstr("numbers x (100 of 400 marked")) << "no name";
  EXPECT_THAT(ErrorOf("x,y\n-,1\n,2\n-,1\n-,2\n"),
              AllOf(HasSubstr("column \"x\": all its values mean missing, as \"-\"; if they are "
                              "names, list the column in data.categories"),
                    Not(HasSubstr("no training row"))));
}

TEST_F(TableTest, ATestOfOneClassIsNoted) {
  std::string sorted = "x,y\n", mixed = sorted;
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&sorted, i % 7, ",", i < 20 ? "a" : "b", "\n");
    absl::StrAppend(&mixed, i % 7, ",", i % 2 == 0 ? "a" : "b", "\n");
  }
  TableOptions options = {.path = Write("s.csv", sorted), .test_fraction = 0.25, .target = {"y"}};
  EXPECT_THAT(Load(options).note,
              AllOf(HasSubstr("s.csv: all 10 test rows"),
                    HasSubstr("have the class b; mix the rows first, unless they are in "
                              "the order of time, or name a test file")));
  std::string rare = "x,y\n";  // nine of ten rows have one class
  for (int i = 0; i < 40; ++i) absl::StrAppend(&rare, i % 7, ",", i % 10 == 0 && i < 30, "\n");
  EXPECT_THAT(Load({.path = Write("r.csv", rare), .test_fraction = 0.25, .target = {"y"}}).note,
              Not(HasSubstr("test rows")));
  options.test = options.path;
  EXPECT_THAT(Load(options).note, Not(HasSubstr("test rows")));
  EXPECT_THAT(Load({.path = Write("m.csv", mixed), .test_fraction = 0.25, .target = {"y"}}).note,
              Not(HasSubstr("test rows")));
}

}  // namespace
}  // namespace psgd
