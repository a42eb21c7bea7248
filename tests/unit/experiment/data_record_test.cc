// The file beside an exported network.
#include "experiment/launch/data_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "experiment/record/records.h"
#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What export writes of a run on such data. Null: no file.
Record Written(const DataConfig& data, const Preparation& preparation, std::string* note) {
  ScratchFolder folder;
  WeightsChunk chunk;
  chunk.mutable_config()->mutable_model()->set_zoo("mlp");
  *chunk.mutable_config()->mutable_data() = data;
  *chunk.mutable_model()->mutable_preparation() = preparation;
  auto& parameter = *chunk.mutable_model()->add_parameters();
  parameter.set_name("w");
  parameter.add_shape(1);
  parameter.mutable_initializer()->mutable_constant();
  WeightsCollector weights;
  EXPECT_TRUE(weights.Add(chunk).ok()) << weights.Add(chunk);
  const auto written = WriteDataRecord(weights, folder.File("net.onnx"));
  EXPECT_TRUE(written.ok()) << written.status();
  if (written->path.empty()) return nullptr;
  EXPECT_EQ(written->path, folder.File("net.onnx.json"));
  *note = written->note;
  return Record::parse(ReadFile(written->path));
}

Record Written(DataConfig::Format format, const Preparation& preparation) {
  DataConfig data;
  data.set_format(format);
  std::string note;
  const Record written = Written(data, preparation, &note);
  EXPECT_EQ(note, "");
  return written;
}

void SetScale(Preparation::Scale* scale, double mean, double deviation) {
  scale->set_mean(mean);
  scale->set_deviation(deviation);
}

TEST(DataRecord, OfATableHasTheInputsInTheirOrder) {
  Preparation table;
  table.mutable_shape()->set_width(4);
  Preparation::Column& kind = *table.add_columns();
  kind.set_name("kind");
  kind.add_values("flat");
  kind.add_values("\xff house");
  kind.set_missing(true);
  Preparation::Column& area = *table.add_columns();
  area.set_name("area");
  SetScale(area.mutable_scale(), 80, 20);
  Preparation::Target& price = *table.add_targets();
  price.set_name("price");
  SetScale(price.mutable_scale(), 1000, 100);
  const Record written = Written(DataConfig::TABLE, table);
  EXPECT_EQ(written["inputs"].dump(-1, ' ', false, Record::error_handler_t::replace),
            "[{\"column\":\"kind\",\"is\":\"flat\"},{\"column\":\"kind\",\"is\":\"\uFFFD house\"},"
            "{\"column\":\"kind\",\"is\":null},"
            "{\"column\":\"area\",\"mean\":80.0,\"deviation\":20.0}]");
  EXPECT_EQ(written["targets"].dump(),
            "[{\"name\":\"price\",\"mean\":1000.0,\"deviation\":100.0}]");
}

TEST(DataRecord, OfArraysHasColumnsOrChannels) {
  Preparation rows;
  rows.mutable_shape()->set_channels(1);
  rows.mutable_shape()->set_height(1);
  rows.mutable_shape()->set_width(2);
  SetScale(rows.add_planes(), 1, 2);
  SetScale(rows.add_planes(), 3, 4);
  rows.add_classes("7");
  Record written = Written(DataConfig::ARRAYS, rows);
  EXPECT_EQ(written["inputs"].size(), 2u);
  EXPECT_EQ(written["inputs"][1]["mean"], 3);
  EXPECT_EQ(written["classes"], Record::array({"7"}));
  rows.mutable_shape()->set_channels(2);
  EXPECT_EQ(Written(DataConfig::ARRAYS, rows)["channels"][0]["deviation"], 2);
  EXPECT_TRUE(Written(DataConfig::ARRAYS, Preparation()).is_null()) << "as of a program";
}

TEST(DataRecord, OfImagesWithoutTheirDataSaysSo) {
  Preparation images;
  images.mutable_shape()->set_channels(1);
  images.mutable_shape()->set_height(28);
  images.mutable_shape()->set_width(28);
  images.add_classes("0");
  DataConfig data;
  data.set_format(DataConfig::IDX);
  data.set_path("/no/such/folder");
  std::string note;
  const Record unread = Written(data, images, &note);
  EXPECT_FALSE(unread.contains("channels"));
  EXPECT_EQ(unread["classes"].size(), 1u);
  EXPECT_THAT(note, AllOf(HasSubstr("net.onnx.json has no scales of the images' channels: "),
                          HasSubstr("/no/such/folder"), HasSubstr("export again")));
  data.add_mean(0.5);
  data.add_stddev(0.25);
  EXPECT_EQ(Written(data, images, &note)["channels"].dump(), "[{\"mean\":0.5,\"deviation\":0.25}]");
  EXPECT_EQ(note, "");
}

}  // namespace
}  // namespace psgd
