// The file beside an exported network.
#include "experiment/launch/data_record.h"

#include <gtest/gtest.h>

#include <string>

#include "experiment/record/records.h"
#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

// What export writes of a run on such data. Null: no file.
Record Written(DataConfig::Format format, const Preparation& preparation) {
  ScratchFolder folder;
  WeightsChunk chunk;
  chunk.mutable_config()->mutable_data()->set_format(format);
  *chunk.mutable_model()->mutable_preparation() = preparation;
  auto& parameter = *chunk.mutable_model()->add_parameters();
  parameter.set_name("w");
  parameter.add_shape(1);
  parameter.mutable_initializer()->mutable_constant();
  WeightsCollector weights;
  EXPECT_TRUE(weights.Add(chunk).ok()) << weights.Add(chunk);
  const auto path = WriteDataRecord(weights, folder.File("net.onnx"));
  EXPECT_TRUE(path.ok()) << path.status();
  if (path->empty()) return nullptr;
  EXPECT_EQ(*path, folder.File("net.onnx.json"));
  return Record::parse(ReadFile(*path));
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

}  // namespace
}  // namespace psgd
