// A shard's journal with an image of one slice, and no entries.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "server/durability/rocks_journal.h"

namespace psgd {

inline void MakeSmallJournal(RocksJournalOptions options) {
  auto journal = RocksJournal::Create(std::move(options));
  ASSERT_TRUE(journal.ok()) << journal.status();
  ShardImage image;
  SliceSnapshot& slice = image.arrays.slices.emplace_back();
  slice.parameter = "w";
  slice.weights = Bytes::Adopt(std::vector<std::byte>(400));
  ASSERT_TRUE((*journal)->BeginLog(1).ok());
  ASSERT_TRUE((*journal)->SaveImage(image).ok());
}

}  // namespace psgd
