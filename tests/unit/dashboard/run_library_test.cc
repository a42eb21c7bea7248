#include "dashboard/run_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "dashboard/run_pages.h"

namespace psgd {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class RunLibraryTest : public testing::Test {
 protected:
  RunLibraryTest() { fs::remove_all(root_); }
  ~RunLibraryTest() override { fs::remove_all(root_); }
  void Write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << text;
  }
  static Record Row(const RunLibrary& library, const std::string& id) {
    for (const Record& row : Record::parse(library.Rows())) {
      if (row["id"] == id) return row;
    }
    return nullptr;
  }
  const std::string root_ = testing::TempDir() + "psgd-run-library";
};

constexpr char kSummary[] =
    R"({"name": "a", "status": "finished", "test_accuracy": 0.5, "error": ""})";
constexpr char kConfig[] = "name: a\nmodel: {zoo: mlp}\ndata: {format: synthetic}\n";
constexpr char kProgress[] = "{\"kind\": \"progress\", \"seconds\": 1}\n";

TEST_F(RunLibraryTest, ListsRunsAtAnyDepthAndSaysWhatIsWrong) {
  Write("good/config.yaml", kConfig);
  Write("good/metrics.jsonl", kProgress);
  Write("good/summary.json", kSummary);
  Write("sweep/cut/config.yaml", kConfig);
  Write("sweep/cut/metrics.jsonl", kProgress);
  Write("sweep/bad/config.yaml", kConfig);
  Write("sweep/bad/summary.json", "{");
  Write("bare/metrics.jsonl", kProgress + std::string("nonsense\n"));
  Write("notes/readme.txt", "no run");
  RunLibrary library(root_);
  EXPECT_TRUE(library.Scan());
  EXPECT_EQ(Record::parse(library.Rows()).size(), 4u);
  EXPECT_EQ(Row(library, "good")["status"], "finished");
  EXPECT_EQ(Row(library, "good")["test_accuracy"], 0.5);
  EXPECT_EQ(Row(library, "sweep/cut")["status"], "running");  // its file was written just now
  EXPECT_EQ(Row(library, "sweep/bad")["status"], "broken");
  EXPECT_THAT(Row(library, "sweep/bad")["note"].get<std::string>(), HasSubstr("summary.json"));
  EXPECT_EQ(Row(library, "bare")["status"], "damaged");
  EXPECT_FALSE(library.Scan());  // nothing changed

  const auto run = library.Run("good");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Record::parse(*run)["records"].size(), 1u);
  EXPECT_THAT(*library.Run("bare"), HasSubstr("not a JSON object"));
  EXPECT_EQ(library.Run("../" + root_).status().code(), absl::StatusCode::kNotFound);

  fs::remove_all(root_ + "/good");
  EXPECT_TRUE(library.Scan());
  EXPECT_FALSE(library.Run("good").ok());
}

TEST_F(RunLibraryTest, ARunWithoutSummaryShowsItsLastFigures) {
  Write("now/config.yaml", kConfig);
  Write("now/metrics.jsonl",
        R"({"kind":"evaluation","seconds":1,"accuracy":0.25,"loss":2}
{"kind":"evaluation","seconds":3,"accuracy":0.5,"loss":1,"measures":{"f1":0.75}}
{"kind":"progress","seconds":4,"epoch":2.5,"samples_per_second":100,"bytes_pushed":7}
{"kind":"detail","seconds":4}
{"kind":"progress","seconds":5,"epo)");
  RunLibrary library(root_);
  library.Scan();
  const Record row = Row(library, "now");
  EXPECT_EQ(row["status"], "running");
  EXPECT_EQ(row["codec"], "none");
  EXPECT_EQ(row["epochs"], 2.5);
  EXPECT_EQ(row["wall_seconds"], 4);
  EXPECT_EQ(row["samples_per_second"], 100);
  EXPECT_EQ(row["bytes_pushed"], 7);
  EXPECT_EQ(row["test_accuracy"], 0.5);
  EXPECT_EQ(row["test_loss"], 1);
  EXPECT_EQ(row["test_measures"]["f1"], 0.75);
}

TEST_F(RunLibraryTest, ARunThatLostItsFilesOrHoldsPipesIsListed) {
  Write("lost/weights.safetensors", "x");
  Write("piped/server/server.log", "");
  for (const char* name : {"config.yaml", "metrics.jsonl", "summary.json"}) {
    ASSERT_EQ(mkfifo((root_ + "/piped/" + name).c_str(), 0600), 0);
  }
  RunLibrary library(root_);
  EXPECT_TRUE(library.Scan());
  EXPECT_EQ(Row(library, "lost")["status"], "broken");
  EXPECT_EQ(Row(library, "piped")["status"], "broken");
  EXPECT_THAT(*library.Run("piped"), HasSubstr("metrics.jsonl is a pipe"));
}

TEST_F(RunLibraryTest, TakesOneRunByItself) {
  Write("config.yaml", kConfig);
  Write("metrics.jsonl", kProgress);
  Write("summary.json", kSummary);
  RunLibrary library(root_);
  library.Scan();
  EXPECT_TRUE(library.Run("psgd-run-library").ok());
}

TEST(PercentDecoded, TakesWhatIsNoEscapeAsItIs) {
  EXPECT_EQ(PercentDecoded("a%20b%2Fc"), "a b/c");
  EXPECT_EQ(PercentDecoded("100%"), "100%");
  EXPECT_EQ(PercentDecoded("%zz%4"), "%zz%4");
}

}  // namespace
}  // namespace psgd
