// A shard's journal with an image of one slice, and no entries.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "server/durability/rocks_journal.h"

namespace psgd {

inline void MakeSmallJournal(RocksJournalOptions options, bool a_worker_pushed = false) {
  auto journal = RocksJournal::Create(std::move(options));
  ASSERT_TRUE(journal.ok()) << journal.status();
  ShardImage image;
  if (a_worker_pushed) image.record.add_members()->set_pushed(true);
  SliceSnapshot& slice = image.arrays.slices.emplace_back();
  slice.parameter = "w";
  slice.weights = Bytes::Adopt(std::vector<std::byte>(400));
  ASSERT_TRUE((*journal)->BeginLog(1).ok());
  ASSERT_TRUE((*journal)->SaveImage(image).ok());
}

}  // namespace psgd
