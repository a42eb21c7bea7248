// The files that data_fuzz makes of an input, by format.
//   for each file except the last: u16 length, bytes; the rest is the last file
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd::fuzz {

struct DataFormat {
  std::string name;
  DataConfig::Format format;
  // For each file of the input, its names in the folder. No names: the file itself is data.path.
  std::vector<std::vector<std::string>> files;
  bool byte_pairs = false;
  DataConfig::TargetKind target_kind = DataConfig::CLASS;
  std::string labels = {};  // data.images.labels
};

inline const std::vector<DataFormat>& DataFormats() {
  static const auto* const formats = new std::vector<DataFormat>{
      {"idx",
       DataConfig::IDX,
       {{"train-images-idx3-ubyte"},
        {"train-labels-idx1-ubyte"},
        {"t10k-images-idx3-ubyte"},
        {"t10k-labels-idx1-ubyte"}}},
      {"idx_numbers",
       DataConfig::IDX,
       {{"train-images-idx3-ubyte"},
        {"train-labels-idx1-ubyte"},
        {"t10k-images-idx3-ubyte"},
        {"t10k-labels-idx1-ubyte"}},
       false,
       DataConfig::NUMBER},
      {"cifar",
       DataConfig::CIFAR10,
       {{"data_batch_1.bin"},
        {"data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
         "test_batch.bin"}}},
      {"tar", DataConfig::IMAGES, {{"train-0.tar", "test-0.tar"}}},
      {"jpeg", DataConfig::IMAGES, {{"train/a/x.jpg", "train/b/x.jpg", "test/a/x.jpg"}}},
      {"png", DataConfig::IMAGES, {{"train/a/x.png", "train/b/x.png", "test/a/x.png"}}},
      {"images_table",
       DataConfig::IMAGES,
       {{"labels.csv"}, {"x.png", "y.png"}},
       false,
       DataConfig::NUMBER,
       "labels.csv"},
      {"segmentation",
       DataConfig::SEGMENTATION,
       {{"train/images/x.jpg", "test/images/x.jpg"}, {"train/masks/x.pgm", "test/masks/x.pgm"}}},
      {"text", DataConfig::TEXT, {{}}},
      {"byte_pairs", DataConfig::TEXT, {{}}, true},
      {"libsvm", DataConfig::LIBSVM, {{}}},
      {"libsvm_numbers", DataConfig::LIBSVM, {{}}, false, DataConfig::NUMBER},
      {"criteo", DataConfig::CRITEO, {{}}},
      {"ratings", DataConfig::RATINGS, {{}}},
      {"table", DataConfig::TABLE, {{}}},
      {"table_numbers", DataConfig::TABLE, {{}}, false, DataConfig::NUMBER},
      {"arrays", DataConfig::ARRAYS, {{}}, false, DataConfig::NUMBER},
      {"text_classes", DataConfig::TEXT_CLASSES, {{}}},
      {"text_classes_byte_pairs", DataConfig::TEXT_CLASSES, {{}}, true},
      {"text_folders", DataConfig::TEXT_CLASSES, {{"y/0", "y/1"}, {"z/0", "z/1"}}},
      {"translation", DataConfig::TRANSLATION, {{}}},
      {"translation_byte_pairs", DataConfig::TRANSLATION, {{}}, true},
  };
  return *formats;
}

}  // namespace psgd::fuzz
