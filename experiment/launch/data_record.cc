#include "experiment/launch/data_record.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/files.h"
#include "data/normalization.h"
#include "data/open_formats.h"
#include "data/preparation.h"
#include "data/token_rows.h"
#include "experiment/record/records.h"
#include "train/network_data.h"

namespace psgd {
namespace {

Record ScaleRecord(const Preparation::Scale& scale) {
  return {{"mean", scale.mean()}, {"deviation", scale.deviation()}};
}

// The inputs of a table, in the order of the network's.
Record ColumnRecords(const Preparation& preparation) {
  Record inputs = Record::array();
  for (const Preparation::Column& column : preparation.columns()) {
    if (column.values().empty()) {
      Record input = {{"column", column.name()}};
      input.update(ScaleRecord(column.scale()));
      inputs.push_back(input);
    }
    for (const std::string& value : column.values()) {
      inputs.push_back({{"column", column.name()}, {"is", value}});
    }
    if (column.missing()) inputs.push_back({{"column", column.name()}, {"is", nullptr}});
  }
  return inputs;
}

// The scales of images whose pixels are bytes. An error: the run measured them, and its data cannot
// be read.
absl::StatusOr<Normalization> PixelScales(const Config& config, int channels) {
  PSGD_ASSIGN_OR_RETURN(const DataConfig data, DataOf(config));
  if (IsPictureFormat(data.format())) return PictureNormalization(data);
  if (data.mean_size() > 0) return GivenNormalization(data, channels);
  PSGD_ASSIGN_OR_RETURN(const DataSets opened, OpenDataOf(config));
  return opened.normalization;
}

Record PixelRecords(const Normalization& scales) {
  Record channels = Record::array();
  for (size_t c = 0; c < scales.mean.size(); ++c) {
    channels.push_back({{"mean", scales.mean[c]}, {"deviation", scales.stddev[c]}});
  }
  return channels;
}

// `unread`: set to the error if the scales of images cannot be read.
Record DataRecordOf(const Config& config, const Preparation& preparation, absl::Status* unread) {
  const DataConfig::Format format = config.data().format();
  const SampleShape shape = ShapeOf(preparation);
  Record record = {{"format", absl::AsciiStrToLower(DataConfig::Format_Name(format))}};
  if (preparation.columns_size() > 0) {
    record["inputs"] = ColumnRecords(preparation);
  } else if (preparation.planes_size() > 0) {
    Record& scales = record[shape.channels == 1 && shape.height == 1 ? "inputs" : "channels"];
    for (const Preparation::Scale& plane : preparation.planes())
      scales.push_back(ScaleRecord(plane));
  } else if (format == DataConfig::TEXT_CLASSES) {
    record["length"] = shape.length;
    record["first_byte"] = static_cast<int>(kSpecialTokens);
    record["merges"] = Record::array();
    for (const uint32_t pair : preparation.merges()) {
      record["merges"].push_back({pair >> 16, pair & 0xffff});
    }
  } else if (!shape.IsSequence() && !shape.IsSparse()) {
    record["bytes_over"] = 255;
    const auto scales = PixelScales(config, shape.channels);
    if (scales.ok()) record["channels"] = PixelRecords(*scales);
    *unread = scales.status();
  }
  for (const Preparation::Target& target : preparation.targets()) {
    Record made = {{"name", target.name()}};
    made.update(ScaleRecord(target.scale()));
    record["targets"].push_back(made);
  }
  for (const std::string& name : preparation.classes()) record["classes"].push_back(name);
  return record;
}

}  // namespace

absl::StatusOr<DataRecordFile> WriteDataRecord(const WeightsCollector& weights,
                                               const std::string& file) {
  const Preparation& preparation = weights.model().preparation();
  if (!preparation.has_shape() || preparation.too_large() || IsWrittenDirectly(file)) {
    return DataRecordFile();
  }
  absl::Status unread;
  const Record record = DataRecordOf(weights.config(), preparation, &unread);
  if (record.size() == 1) return DataRecordFile();
  DataRecordFile written = {absl::StrCat(file, ".json"), ""};
  // Names may be in any encoding.
  PSGD_RETURN_IF_ERROR(WriteFileAtomically(
      written.path,
      record.dump(1, ' ', /*ensure_ascii=*/false, Record::error_handler_t::replace) + "\n"));
  if (!unread.ok()) {
    written.note =
        absl::StrCat(written.path, " has no scales of the images' channels: ", unread.message(),
                     "; export again where data.path has the run's data set");
  }
  return written;
}

}  // namespace psgd
