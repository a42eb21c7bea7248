#include "experiment/launch/data_record.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
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

// Of images of bytes. Nothing: the run measured it, and its data are not here.
std::optional<Normalization> PixelScales(const Config& config) {
  const auto data = DataOf(config);
  if (!data.ok()) return std::nullopt;
  if (IsPictureFormat(data->format())) {
    auto scales = PictureNormalization(*data);
    return scales.ok() ? std::optional(*scales) : std::nullopt;
  }
  const auto opened = OpenDataOf(config);
  return opened.ok() ? std::optional(opened->normalization) : std::nullopt;
}

Record PixelRecords(const Config& config) {
  Record channels = Record::array();
  const std::optional<Normalization> scales = PixelScales(config);
  for (size_t c = 0; scales && c < scales->mean.size(); ++c) {
    channels.push_back({{"mean", scales->mean[c]}, {"deviation", scales->stddev[c]}});
  }
  return channels;
}

Record DataRecordOf(const Config& config, const Preparation& preparation) {
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
    record["channels"] = PixelRecords(config);
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

absl::StatusOr<std::string> WriteDataRecord(const WeightsCollector& weights,
                                            const std::string& file) {
  const Preparation& preparation = weights.model().preparation();
  if (!preparation.has_shape() || preparation.too_large()) return "";
  const Record record = DataRecordOf(weights.config(), preparation);
  if (record.size() == 1) return "";
  const std::string path = absl::StrCat(file, ".json");
  // Names may be in any encoding.
  PSGD_RETURN_IF_ERROR(WriteFileAtomically(
      path, record.dump(1, ' ', /*ensure_ascii=*/false, Record::error_handler_t::replace) + "\n"));
  return path;
}

}  // namespace psgd
