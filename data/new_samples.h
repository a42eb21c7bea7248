// Samples to predict, without classes or targets, prepared as those that the network trained on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/dataset.h"
#include "data/transforms.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

struct NewSamples {
  std::shared_ptr<const SampleSource> samples;  // all labels and targets are 0
  std::vector<std::string> files;               // of each sample; empty: samples are rows
  std::vector<std::string> notes;               // for people, of values that the run does not know
};

// OK if new samples of these data can be predicted. Else an error that says what to do instead.
absl::Status CheckPredictable(DataConfig::Format format, const Preparation& preparation);

// Opens what `path` has, in the order of rows or of names:
// - table: a file with the columns that were inputs. Others are ignored.
// - arrays: a .npz or .npy file, or a folder, with the array x.
// - text_classes: a table with the column of texts; or, if the run's texts were files, a file, or a
//   folder of files.
// - images: a JPEG or PNG file, or a folder of them.
// A folder counts with the folders in it, but for names that begin with a dot. A category that no
// training row has is as a missing one. Texts that are blank are errors, as in training. Errors
// name the file, the line, the column and what to do. `preparation` comes from a checkpoint.
absl::StatusOr<NewSamples> OpenNewSamples(const DataConfig& config, const Preparation& preparation,
                                          const std::string& path);

}  // namespace psgd
