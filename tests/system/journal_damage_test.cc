// Flips a bit in any file of a real run's journal: ps-ctl verify reports it, or it is harmless.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/run_dir.h"
#include "server/durability/durable_shard.h"
#include "server/durability/rocks_journal.h"
#include "server/durability/rocks_run_store.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class JournalDamage : public RunTest {
 protected:
  // Makes a run with two images for each shard, and kills its processes.
  void KilledRun(const std::string& image_after = "64KiB") {
    Process server({"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir", Path("run"),
                    "--set", "durability.acknowledge=journal", "--set",
                    "durability.journal=" + image_after, "--set", "train.epochs=100000", "--set",
                    "durability.checkpoint=5 epochs"});
    const std::string address = ServerOf(server);
    Process one({"ps-worker", "--cpu", "--server", address});
    Process other({"ps-worker", "--cpu", "--server", address});
    ASSERT_TRUE(server.WaitFor("epoch 20: test accuracy")) << server.Err();
    // verify does not read a journal while a server writes it.
    const Ended busy = RunProgram({"ps-ctl", "verify", Path("run")});
    EXPECT_THAT(busy.out, HasSubstr("the journal was not looked at"));
    server.Signal(SIGKILL);
    server.Wait();
  }
  std::string Journal() const { return Path("run/server/journal"); }

  // The newest RocksDB log of that part that is not empty.
  fs::path NewestLog(const std::string& part) const {
    fs::path newest;
    for (const auto& found : fs::directory_iterator(Journal() + "/" + part)) {
      if (found.path().extension() != ".log" || found.file_size() == 0) continue;
      if (newest.empty() || found.path().filename() > newest.filename()) newest = found.path();
    }
    return newest;
  }
  uint64_t LastEntry(int shard) const {
    const Ended verified = RunProgram({"ps-ctl", "verify", Path("run"), "--json"});
    return Json::parse(verified.out)["journal"][1 + shard]["last_entry"].get<uint64_t>();
  }
  void ExpectRefused(const std::vector<std::string>& parts) const {
    const Ended verified = RunProgram({"ps-ctl", "verify", Path("run")});
    EXPECT_EQ(verified.code, 1) << verified.out;
    EXPECT_THAT(verified.err, HasSubstr("the journal of " + Path("run") +
                                        " is damaged; --recover would refuse it"));
    const Ended recovered = RunProgram({"ps-server", "--recover", Path("run")});
    EXPECT_EQ(recovered.code, 1) << recovered.out;
    for (const std::string& part : parts) {
      EXPECT_THAT(verified.out, HasSubstr(part));
      EXPECT_THAT(recovered.err, HasSubstr(part));
    }
  }

  static void FlipBit(const fs::path& file, uint64_t at) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(bytes.get());
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(static_cast<char>(byte ^ 0x10));
  }

  RocksJournalOptions OptionsOf(int shard) const {
    RocksJournalOptions options;
    options.folder = absl::StrCat(Path("copy/shard-"), shard);
    options.shard = static_cast<uint32_t>(shard);
    return options;
  }

  // The state of a server that goes on from the journal: the coordinator's record, and each shard's
  // weights and position. Empty: the server would not start.
  std::map<std::string, std::string> Recovered() {
    fs::remove_all(Path("copy"));
    clocks_.clear();
    fs::copy(Journal(), Path("copy"), fs::copy_options::recursive);
    std::map<std::string, std::string> state;
    {
      const auto store = RocksRunStore::Open(Path("copy/coordinator"), false);
      if (!store.ok()) return {};
      const auto held = (*store)->Read();
      const auto plan = (*store)->ReadPlan();
      if (!held.ok() || !plan.ok()) return {};
      state["coordinator"] = held->record.SerializeAsString() + plan->SerializeAsString();
    }
    const auto config = LoadConfig(RunDir(Path("run")).ConfigFile());
    EXPECT_TRUE(config.ok()) << config.status();
    for (int s = 0; s < config->cluster().shards(); ++s) {
      const RocksJournalOptions options = OptionsOf(s);
      auto journal = RocksJournal::Open(options);
      if (!journal.ok()) return {};
      DurableShardOptions durable;
      durable.shard.shard = static_cast<uint32_t>(s);
      durable.shard.config = *config;
      durable.journal = *std::move(journal);
      std::vector<std::string> notes;
      const auto shard = DurableShard::Recover(std::move(durable), &notes);
      if (!shard.ok()) return {};
      for (const MemberClock& clock : (*shard)->core().Clocks())
        clocks_ += clock.ShortDebugString();
      std::string& text = state[absl::StrCat("shard ", s)];
      absl::StrAppend(&text, (*shard)->entries(), " ");
      for (const SliceSnapshot& slice : (*shard)->core().MakeImage().arrays.slices) {
        text.append(reinterpret_cast<const char*>(slice.weights.data()), slice.weights.size());
        for (const auto& [name, array] : slice.states) {
          text.append(reinterpret_cast<const char*>(array.data()), array.size());
        }
      }
    }
    return state;
  }

  std::string clocks_;  // how far the shards are with the workers, as Recovered() found
};

TEST_F(JournalDamage, AFlippedBitOfAnyFileIsFoundOrHarmless) {
  KilledRun();
  ASSERT_FALSE(HasFailure());
  const Ended sound = RunProgram({"ps-ctl", "verify", Path("run"), "--json"});
  ASSERT_EQ(sound.code, 0) << sound.out << sound.err;
  const Json parts = Json::parse(sound.out)["journal"];
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0]["part"], "coordinator");
  // The journal keeps two images; a kill just after a third is written leaves all three.
  EXPECT_THAT(parts[2]["images"].size(), testing::AllOf(testing::Ge(2u), testing::Le(3u)));
  EXPECT_GT(parts[2]["last_entry"].get<uint64_t>(), 100u);
  const auto whole = Recovered();
  ASSERT_EQ(whole.size(), 3u);

  std::vector<fs::path> files;
  for (const auto& found : fs::recursive_directory_iterator(Journal())) {
    if (found.is_regular_file() && found.file_size() > 0) files.push_back(found.path());
  }
  int found = 0, harmless = 0;
  for (const fs::path& file : files) {
    const uint64_t size = fs::file_size(file);
    for (const uint64_t at : {size / 3, size - std::min<uint64_t>(size, 30)}) {
      FlipBit(file, at);
      const Ended verified = RunProgram({"ps-ctl", "verify", Path("run"), "--json"});
      const auto recovered = Recovered();
      // The weights are never wrong, whatever verify says.
      if (!recovered.empty()) {
        EXPECT_EQ(recovered, whole) << file << " byte " << at;
      }
      if (verified.code == 0) {
        ++harmless;
        EXPECT_FALSE(recovered.empty())
            << file << " byte " << at << ": a server refuses what is sound";
      } else {
        ++found;
        EXPECT_EQ(verified.code, 1);
        EXPECT_THAT(verified.err, HasSubstr("the journal of " + Path("run") + " is damaged"));
        // verify names the part that the file belongs to.
        const std::string part = fs::relative(file, Journal()).begin()->string();
        const Json told = Json::parse(verified.out);
        EXPECT_FALSE(told["journal"].empty());
        for (const Json& one : told["journal"]) {
          const std::string name = one["part"];
          const bool mine = part == (name.starts_with("shard ") ? "shard-" + name.substr(6) : name);
          EXPECT_EQ(one["state"], mine ? "damaged" : "sound") << name << " " << file;
        }
      }
      FlipBit(file, at);
    }
  }
  EXPECT_GT(found, 20);
  std::cout << files.size() << " files: " << found << " flipped bits found, " << harmless
            << " harmless\n";
  EXPECT_EQ(RunProgram({"ps-ctl", "verify", Path("run")}).code, 0) << "verify changed something";
}

// RocksDB takes a missing or short log for a log that a crash cut off.
TEST_F(JournalDamage, ALostEndOfOneShardsJournalIsFound) {
  KilledRun();
  ASSERT_FALSE(HasFailure());
  std::vector<std::string> damage;
  const auto held = RocksRunStore::Check(Journal() + "/coordinator", &damage);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ(held->record.shards_size(), 2);
  const uint64_t known = held->record.shards(1).entries();
  ASSERT_GT(known, 0u);
  ASSERT_GE(LastEntry(1), known);
  // The newest log may have begun after the record was written.
  for (int i = 0; i < 4 && LastEntry(1) >= known; ++i) {
    const fs::path newest = NewestLog("shard-1/log");
    ASSERT_FALSE(newest.empty());
    fs::remove(newest);
  }
  ASSERT_LT(LastEntry(1), known);
  // An image may be newer than the rest of the log, and names the loss before the record does.
  ExpectRefused({"shard 1", "its end is gone", "ps-run --resume"});
}

// The run's record is older than what the shards have. They are compared with each other.
TEST_F(JournalDamage, ALostEndThatTheRecordDoesNotTellIsFound) {
  KilledRun("1GiB");
  ASSERT_FALSE(HasFailure());
  ASSERT_FALSE(Recovered().empty());
  std::string clocks;  // without the shards themselves
  for (int s = 0; s < 2; ++s) {
    for (const MemberClock& clock : RocksJournal::Check(OptionsOf(s)).clocks)
      clocks += clock.ShortDebugString();
  }
  EXPECT_EQ(clocks, clocks_);
  EXPECT_THAT(clocks, HasSubstr("pushed: true"));
  {
    const auto store = RocksRunStore::Open(Journal() + "/coordinator", false);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto held = (*store)->Read();
    ASSERT_TRUE(held.ok()) << held.status();
    RunRecord older = held->record;
    older.mutable_shards(1)->set_entries(0);
    ASSERT_TRUE((*store)->Write(held->revision, older, nullptr, RunStore::As::kLeader).ok());
  }
  EXPECT_EQ(RunProgram({"ps-ctl", "verify", Path("run")}).code, 0);
  const fs::path newest = NewestLog("shard-1/log");
  fs::resize_file(newest, fs::file_size(newest) / 4 * 3);
  ExpectRefused(
      {"the journal of shard 1 has the pushes of worker ", "its end is gone", "ps-run --resume"});
}

TEST_F(JournalDamage, ACoordinatorWhoseFolderIsGoneIsFound) {
  KilledRun();
  ASSERT_FALSE(HasFailure());
  for (const auto& found : fs::directory_iterator(Journal() + "/coordinator"))
    fs::remove(found.path());
  ExpectRefused({"coordinator holds no record of the coordinator, and training had begun",
                 "ps-run --resume"});
  fs::remove_all(Journal() + "/coordinator");
  ExpectRefused({"coordinator holds no record of the coordinator, and training had begun",
                 "ps-run --resume"});
}

}  // namespace
}  // namespace psgd
