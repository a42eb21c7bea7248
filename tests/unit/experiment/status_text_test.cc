// What ps-ctl status and the metrics page say of a shard that waits for its disk.
#include "experiment/status_text.h"

#include "server/metrics_page.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StatusText, AShardThatWaitsForItsDiskIsShown) {
  StatusReply status;
  status.set_state(StatusReply::TRAINING);
  for (uint32_t s = 0; s < 2; ++s) status.add_shards()->set_shard(s);
  EXPECT_THAT(StatusText(status), Not(HasSubstr("waits")));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("psgd_journal_stalled{shard=\"1\"} 0\n"));
  status.mutable_shards(1)->set_stalled("No space left on device");
  EXPECT_THAT(StatusText(status),
              HasSubstr("shard 1 waits, since its journal cannot be written: No space left"));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("psgd_journal_stalled{shard=\"1\"} 1\n"));
}

TEST(StatusText, BatchesOfLostWorkersAreCounted) {
  StatusReply status;
  EXPECT_THAT(StatusText(status), Not(HasSubstr("dealt again")));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("\npsgd_batches_repeated_total 0\n"));
  status.set_batches_repeated(5);
  status.set_batches_lost(2);
  EXPECT_THAT(StatusText(status), HasSubstr("of lost workers' batches 5 dealt again, 2 left out\n"));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("\npsgd_batches_repeated_total 5\n"));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("\npsgd_batches_lost_total 2\n"));
}

}  // namespace
}  // namespace psgd
