#include "tests/sim/case_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "experiment/config/config_reader.h"
#include "experiment/config/yaml_tree.h"
#include "tests/sim/gradients.h"

namespace psgd::sim {
namespace {

constexpr const char* kServers = "server, server 2, ..., standby";

absl::Status Wrong(int event, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("events[", event, "]: ", what));
}

// "worker 3" -> 3.
absl::StatusOr<uint32_t> NumberOf(absl::string_view text, absl::string_view kind, int event) {
  const std::string whole(text);
  uint32_t number = 0;
  if (absl::ConsumePrefix(&text, kind) && absl::ConsumePrefix(&text, " ") &&
      absl::SimpleAtoi(text, &number))
    return number;
  return Wrong(event, absl::StrCat("\"", whole, "\" is not a ", std::string(kind), ", as \"",
                                   std::string(kind), " 0\""));
}

class EventReader {
 public:
  EventReader(const SimCase& written, const Scenario& scenario)
      : written_(written), scenario_(scenario) {}

  absl::StatusOr<Event> Read(int index) {
    index_ = index;
    const SimEvent& from = written_.events(index);
    event_ = Event();
    event_.at = Milliseconds(from.at());
    event_.length = Milliseconds(from.for_());
    event_.writing_image = from.writing_image();
    PSGD_RETURN_IF_ERROR(ReadWhat(from));
    if (event_.writing_image &&
        (event_.at_worker || (event_.what != Event::kKill && event_.what != Event::kPower))) {
      return Wrong(index, "writing_image goes with kill and power of a server");
    }
    return event_;
  }

 private:
  absl::Status ReadWhat(const SimEvent& from) {
    switch (from.what_case()) {
      case SimEvent::kKill:
        event_.what = Event::kKill;
        return ReadWho(from.kill());
      case SimEvent::kPower:
        event_.what = Event::kPower;
        PSGD_RETURN_IF_ERROR(ReadWho(from.power()));
        return event_.at_worker || event_.who == Event::kStandby
                   ? Wrong(index_, "power is lost by a server; a worker keeps nothing: kill it")
                   : absl::OkStatus();
      case SimEvent::kPause:
        event_.what = Event::kPause;
        PSGD_RETURN_IF_ERROR(ReadWho(from.pause()));
        return event_.who == Event::kStandby ? Wrong(index_, "the standby is killed, not paused")
                                             : absl::OkStatus();
      case SimEvent::kClock:
        event_.what = Event::kClock;
        event_.step = Milliseconds(from.ahead() - from.back());
        PSGD_RETURN_IF_ERROR(ReadWho(from.clock()));
        return event_.at_worker || event_.who == 1
                   ? absl::OkStatus()
                   : Wrong(index_, "only the server and workers go by a clock");
      case SimEvent::kCut:
        event_.what = Event::kCut;
        return ReadCut(from);
      case SimEvent::kFullDisk:
        event_.what = Event::kFullDisk;
        return from.full_disk() == "all" ? absl::OkStatus() : Wrong(index_, "full_disk: all");
      case SimEvent::kStart:
        event_.what = Event::kStart;
        return from.start() == "worker" ? absl::OkStatus() : Wrong(index_, "start: worker");
      case SimEvent::kDisconnect:
        event_.what = Event::kDisconnect;
        return ReadJoined(from.disconnect());
      case SimEvent::kLeave:
        event_.what = Event::kLeave;
        return ReadJoined(from.leave());
      case SimEvent::kMove:
        event_.what = Event::kMove;
        PSGD_RETURN_IF_ERROR(ReadWho(from.to()));
        return ReadShard(from.move());
      case SimEvent::kDrop:
        event_.what = Event::kDrop;
        event_.rate = from.drop();
        return absl::OkStatus();
      case SimEvent::kRepeat:
        event_.what = Event::kRepeat;
        event_.rate = from.repeat();
        return absl::OkStatus();
      case SimEvent::kSlow:
        event_.what = Event::kSlow;
        event_.rate = from.slow();
        return absl::OkStatus();
      case SimEvent::kDrain:
        event_.what = Event::kDrain;
        return absl::OkStatus();
      case SimEvent::WHAT_NOT_SET:
        break;
    }
    return Wrong(index_, "says nothing that happens: kill, power, pause, ...");
  }

  absl::Status ReadWho(const std::string& who) {
    event_.at_worker = who.starts_with("worker");
    if (event_.at_worker) {
      PSGD_ASSIGN_OR_RETURN(event_.who, NumberOf(who, "worker", index_));
      return event_.who < kMembers ? absl::OkStatus()
                                   : Wrong(index_, absl::StrCat("workers are below ", kMembers));
    }
    if (who == "server") event_.who = 1;
    if (who == "standby") event_.who = Event::kStandby;
    if (who == "server" || who == "standby") return absl::OkStatus();
    if (!who.starts_with("server"))
      return Wrong(index_, absl::StrCat("\"", who, "\" is none of worker 0, ..., ", kServers));
    PSGD_ASSIGN_OR_RETURN(event_.who, NumberOf(who, "server", index_));
    const auto last = static_cast<uint32_t>(written_.servers());
    return event_.who >= 1 && event_.who <= last
               ? absl::OkStatus()
               : Wrong(index_, absl::StrCat("there are servers 1 to ", last));
  }

  absl::Status ReadJoined(const std::string& who) {
    PSGD_RETURN_IF_ERROR(ReadWho(who));
    return !event_.at_worker && event_.who > 1 && event_.who != Event::kStandby
               ? absl::OkStatus()
               : Wrong(index_, "is for a server that joined: server 2, ...");
  }

  absl::Status ReadShard(const std::string& shard) {
    PSGD_ASSIGN_OR_RETURN(event_.shard, NumberOf(shard, "shard", index_));
    const auto shards = static_cast<uint32_t>(scenario_.config.cluster().shards());
    return event_.shard < shards ? absl::OkStatus()
                                 : Wrong(index_, absl::StrCat("there are ", shards, " shards"));
  }

  absl::Status ReadCut(const SimEvent& from) {
    PSGD_RETURN_IF_ERROR(ReadWho(from.cut()));
    if (!event_.at_worker) return Wrong(index_, "a worker is cut off; disconnect: is for servers");
    event_.from_all = !from.has_from();
    event_.from_coordinator = event_.from_all || from.from() == "coordinator";
    return event_.from_coordinator ? absl::OkStatus() : ReadShard(from.from());
  }

  const SimCase& written_;
  const Scenario& scenario_;
  int index_ = 0;
  Event event_;
};

// What no run keeps its promises in, or none can be watched in.
absl::Status CheckCase(const SimCase& written, const Scenario& s) {
  const auto level = s.config.durability().acknowledge();
  const bool lossy = !s.config.compression().push().has_none();
  for (int i = 0; i < static_cast<int>(s.events.size()); ++i) {
    const Event& event = s.events[static_cast<size_t>(i)];
    const bool dies = event.what == Event::kKill || event.what == Event::kPower;
    if (dies && !event.at_worker && level == DurabilityConfig::MEMORY) {
      return Wrong(i, "a server that dies ends a run with durability.acknowledge: memory");
    }
    if (dies && event.at_worker && lossy)
      return Wrong(i, "a worker that dies takes what its codec left behind with it");
    if (event.who == Event::kStandby && level != DurabilityConfig::REPLICATED) {
      return Wrong(i, "there is a standby with durability.acknowledge: replicated");
    }
  }
  if (s.joined > 0 && level == DurabilityConfig::REPLICATED) {
    return absl::InvalidArgumentError("servers: a run that is followed lies on one server");
  }
  if (lossy && !s.config.compression().push().has_topk()) {
    return absl::InvalidArgumentError(
        "config.compression.push: the simulator's workers know none and topk");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SimCase> LoadCase(const std::string& path) {
  PSGD_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kMaxYamlBytes));
  return ParseCase(std::move(text), path);
}

absl::StatusOr<SimCase> ParseCase(std::string text, std::string name_for_errors) {
  const YamlSource source{std::move(name_for_errors), std::move(text)};
  PSGD_ASSIGN_OR_RETURN(const YamlTree tree, ParseYaml(source));
  SimCase read;
  PSGD_RETURN_IF_ERROR(ConfigReader(source, tree).ReadSection(tree.root, "", &read));
  return read;
}

absl::StatusOr<Scenario> ScenarioOf(const SimCase& written, uint64_t seed) {
  const ClusterConfig& cluster = written.config().cluster();
  Scenario s = CalmScenario(seed, cluster.has_workers() ? cluster.workers() : 2, 1);
  s.config.MergeFrom(written.config());
  s.model = SimulatedModel(written.slices());
  s.batches_per_epoch = static_cast<uint32_t>(written.batches());
  s.joined = written.servers() - 1;
  s.longest_step = Milliseconds(written.step());
  if (written.has_image_after()) s.image_after = static_cast<uint64_t>(written.image_after());
  const SimRates& rates = written.rates();
  s.network.drop = rates.drop();
  s.network.repeat = rates.repeat();
  s.network.slow = rates.slow();
  s.network.slow_delay = Milliseconds(rates.slow_delay());
  s.network.ordered = rates.ordered();
  s.poison = rates.poison();
  s.failed_checkpoints = rates.failed_checkpoints();
  s.torn_images = rates.torn_images();
  s.moves = rates.moves();
  s.broken_calls = rates.broken_calls();
  s.late_calls = rates.late_calls();
  s.disk_delay = Milliseconds(rates.slow_disk());
  EventReader reader(written, s);
  for (int i = 0; i < written.events_size(); ++i) {
    PSGD_ASSIGN_OR_RETURN(Event event, reader.Read(i));
    s.events.push_back(event);
  }
  PSGD_RETURN_IF_ERROR(CheckCase(written, s));
  return s;
}

}  // namespace psgd::sim
