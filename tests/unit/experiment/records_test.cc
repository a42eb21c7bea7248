#include "experiment/record/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace psgd {
namespace {

using ::testing::HasSubstr;

class RecordsTest : public testing::Test {
 protected:
  RecordsTest() : path_(testing::TempDir() + "/records_test.jsonl") {
    std::filesystem::remove(path_);
  }
  ~RecordsTest() override { std::filesystem::remove(path_); }

  std::unique_ptr<MetricsWriter> Open() {
    auto writer = MetricsWriter::Open(path_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  std::string Text() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  void SetText(const std::string& text) { std::ofstream(path_) << text; }

  const std::string path_;
};

TEST_F(RecordsTest, ALineIsThereWhenWriteReturns) {
  const auto writer = Open();
  ASSERT_TRUE(writer->Write("train", 1.5, {{"loss", 0.25}, {"clock", 7}}).ok());
  EXPECT_EQ(Text(), "{\"kind\":\"train\",\"seconds\":1.5,\"loss\":0.25,\"clock\":7}\n");
  ASSERT_TRUE(writer->Write("done", 2, nullptr).ok());
  const auto records = ReadMetrics(path_);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ((*records)[0]["clock"], 7);
  EXPECT_EQ((*records)[1]["kind"], "done");
}

TEST_F(RecordsTest, TheLastTimeIsThatOfTheLastWholeRecord) {
  EXPECT_EQ(LastSeconds(path_), 0);
  SetText("");
  EXPECT_EQ(LastSeconds(path_), 0);
  SetText(R"({"kind":"progress","seconds":2.5})"
          "\n"
          R"({"kind":"detail","seconds":7.25})"
          "\n"
          R"({"kind":"x","seconds":9)");
  EXPECT_EQ(LastSeconds(path_), 7.25);
  SetText(R"({"kind":"progress","seconds":2.5})"
          "\nnot a record\n{}\n");
  EXPECT_EQ(LastSeconds(path_), 2.5);
}

TEST_F(RecordsTest, TheTimeOfARunIsThatOfAllItsParts) {
  EXPECT_EQ(TotalSeconds(path_), 0);
  SetText(R"({"kind":"progress","seconds":2.5})"
          "\n"
          R"({"kind":"progress","seconds":7})"
          "\n"
          R"({"kind":"progress","seconds":0.5})"
          "\nnot a record\n"
          R"({"kind":"progress","seconds":3})"
          "\n"
          R"({"kind":"x","seconds":9)");
  EXPECT_EQ(TotalSeconds(path_), 10);
}

TEST_F(RecordsTest, OddValuesStayOneLineOfJson) {
  const auto writer = Open();
  ASSERT_TRUE(writer->Write("x", std::nan(""), {{"text", "a\nb\xFF"}, {"inf", INFINITY}}).ok());
  const auto records = ReadMetrics(path_);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_TRUE((*records)[0]["seconds"].is_null());
  EXPECT_TRUE((*records)[0]["inf"].is_null());
}

TEST_F(RecordsTest, ATornLastLineIsLeftOut) {
  for (const char* torn : {"{\"kind\":\"b\"", "{\"kind\":\"b\"}", "{"}) {
    SetText(std::string("{\"kind\":\"a\"}\n") + torn);
    const auto records = ReadMetrics(path_);
    ASSERT_TRUE(records.ok()) << records.status();
    EXPECT_EQ(records->size(), 1u);
  }
}

TEST_F(RecordsTest, GoingOnCutsATornLine) {
  SetText("{\"kind\":\"a\"}\n{\"kind\":\"tor");
  ASSERT_TRUE(Open()->Write("b", 1, nullptr).ok());
  EXPECT_EQ(Text(), "{\"kind\":\"a\"}\n{\"kind\":\"b\",\"seconds\":1.0}\n");
  SetText(std::string(10000, 'x'));  // a torn line of several blocks, with no line before it
  ASSERT_TRUE(Open()->Write("c", 1, nullptr).ok());
  EXPECT_EQ(Text(), "{\"kind\":\"c\",\"seconds\":1.0}\n");
}

TEST_F(RecordsTest, DamageInTheMiddleIsAnError) {
  SetText("{\"kind\":\"a\"}\ngarbage\n{\"kind\":\"b\"}\n");
  EXPECT_EQ(ReadMetrics(path_).status().message(), path_ + ":2: not a JSON object");
  SetText(std::string(100000, '[') + "\n");
  EXPECT_FALSE(ReadMetrics(path_).ok());
  EXPECT_EQ(ReadMetrics("/no/such").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RecordsTest, AFullDiskIsReportedOnce) {
  auto writer = MetricsWriter::Open("/dev/full");
  ASSERT_TRUE(writer.ok()) << writer.status();
  const absl::Status first = (*writer)->Write("a", 1, nullptr);
  EXPECT_EQ(first.message(),
            "cannot write /dev/full: No space left on device; free some space or choose another "
            "disk");
  EXPECT_TRUE((*writer)->Write("a", 2, nullptr).ok());
  EXPECT_EQ((*writer)->lost(), 2u);
}

TEST_F(RecordsTest, AHalfWrittenLineIsTakenBack) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto writer = Open();
  ASSERT_TRUE(writer->Write("a", 1, nullptr).ok());
  const std::string before = Text();
  rlimit small = old;
  small.rlim_cur = before.size() + 10;  // only the start of the next line fits
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = writer->Write("b", 2, nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
  EXPECT_EQ(Text(), before);
  EXPECT_TRUE(writer->Write("c", 3, nullptr).ok());
  EXPECT_EQ(ReadMetrics(path_)->size(), 2u);
  EXPECT_EQ(writer->lost(), 1u);
}

TEST_F(RecordsTest, CannotOpen) {
  EXPECT_THAT(std::string(MetricsWriter::Open("/proc/nothing/x").status().message()),
              HasSubstr("cannot open /proc/nothing/x: "));
  EXPECT_FALSE(MetricsWriter::Open("/tmp").ok());
}

TEST_F(RecordsTest, ThreadsDoNotMixLines) {
  const auto writer = Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_TRUE(writer->Write("t", i, {{"x", i}}).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ReadMetrics(path_)->size(), 800u);
}

}  // namespace
}  // namespace psgd
