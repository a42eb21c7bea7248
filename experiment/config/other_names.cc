#include "experiment/config/other_names.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "experiment/config/schema.h"

namespace psgd {

namespace {

// A name of ours, and the names that other systems use for it. Some of ours are advice: see
// HintForOtherName.
struct Called {
  absl::string_view ours;
  absl::string_view theirs;  // separated by spaces
};

constexpr Called kKeys[] = {
    {"optimizer.sgd.learning_rate", "lr learning_rate"},
    {"optimizer.sgd.momentum", "momentum"},
    {"train", "training trainer"},
    {"optimizer.sgd.weight_decay", "weight_decay wd"},
    {"schedule", "lr_scheduler scheduler"},
    {"schedule.warmup", "warmup"},
    {"schedule.warmup, as 500 steps", "warmup_steps"},
    {"schedule.warmup, as 2 epochs", "warmup_epochs"},
    {"optimizer.adam.beta1 and optimizer.adam.beta2", "betas"},
    {"data.batch", "batch_size per_device_train_batch_size"},
    {"data.micro_batch", "micro_batch_size train_micro_batch_size_per_gpu"},
    {"data.micro_batch: data.batch divided by these steps",
     "gradient_accumulation_steps accum_iter"},
    {"data.micro_batch: data.batch divided by these batches", "accumulate_grad_batches"},
    {"train.clip.norm",
     "gradient_clipping max_grad_norm grad_clip clip_grad clip_grad_norm gradient_clip_val "
     "clipnorm global_clipnorm clip_norm max_norm"},
    {"train.clip.value", "clipvalue clip_grad_value clip_value"},
    {"optimizer.groups", "param_groups parameter_groups"},
    {"optimizer.groups.rate", "lr_mult"},
    {"train.average", "ema ema_decay ema_momentum model_ema_decay"},
    {"train.average, as 0.999", "use_ema"},
    {"train.early_stop", "early_stopping"},
    {"train.early_stop.patience", "patience early_stopping_patience"},
    {"train.early_stop.least", "min_delta early_stopping_threshold"},
    {"durability.keep_best", "save_best_only save_best load_best_model_at_end"},
    {"durability.keep_best, and durability.keep for the newest", "save_top_k"},
    {"durability.keep", "save_total_limit max_to_keep"},
    {"data.format and data.path", "dataset"},
    {"data.path", "data_dir dataroot"},
    {"cluster.workers, or data.threads for threads that prepare batches", "num_workers"},
    {"data.images.size", "image_size img_size"},
    {"data.table.test_fraction, or data.text.test_fraction", "test_size test_split"},
    {"leave it out: psgd deals the samples in a new order in each epoch", "shuffle"},
    {"data.augment.flip", "mirror horizontal_flip"},
    {"data.text.length, or data.translation.source_length", "max_length"},
    {"data.text.length", "seq_len sequence_length block_size"},
    {"data.vocabulary", "vocab_size"},
    {"data.tokens", "tokenizer"},
    {"train.epochs", "num_epochs num_train_epochs epochs max_epochs"},
    {"train.max_steps", "max_steps steps"},
    {"model.zoo", "arch architecture network"},
    {"leave it out: networks of model.zoo have their own; give another as model.onnx",
     "activation"},
    {"model.layers", "num_layers n_layer"},
    {"model.width", "hidden_size n_embd"},
    {"model.heads", "num_heads n_head"},
    {"model.loss", "criterion loss"},
    {"cluster.workers", "world_size workers worker"},
    {"cluster.shards", "shards num_shards"},
    {"cluster.transport", "transport backend"},
    {"consistency.staleness", "staleness max_staleness staleness_threshold"},
    {"compression.push", "push codec compressor"},
    {"cluster.servers", "num_servers ps"},
    {"cluster.copies", "replicas"},
    {"compression.push.topk.density", "compress_ratio topk_ratio ratio density"},
    {"consistency.staleness: 0", "sync"},
    {"consistency.staleness: unbounded", "async"},
    {"local.steps", "local_sgd_steps sync_every"},
    {"durability.checkpoint", "save_every checkpoint checkpoint_interval"},
    {"durability.checkpoint, as 500 steps", "save_steps"},
    {"cluster.deadline", "timeout"},
    {"cluster.lease", "heartbeat_timeout"},
    {"use the option --gpu of ps-run and ps-worker", "device gpus cuda"},
    {"use the option --precision of ps-run and ps-worker", "precision fp16 bf16 amp"},
    {"use the option --run-dir of ps-run and ps-server", "output_dir log_dir run_dir"},
    {"use the option --port of ps-server", "port"},
    {"use the option --resume of ps-run", "resume"},
    {"repeat.seeds, in a sweep", "seeds"},
};

// Their names are in lower case, without - and _, and without a final Loss or LR.
constexpr Called kValues[] = {
    {"table", "csv tsv pandas"},
    {"arrays", "npz npy numpy"},
    {"images", "imagefolder folder jpeg jpg png webdataset"},
    {"idx", "mnist fashionmnist"},
    {"segmentation", "masks"},
    {"libsvm", "svmlight"},
    {"ratings", "movielens"},
    {"text", "txt"},
    {"text_classes", "textclassification"},
    {"translation", "seq2seq"},
    {"bpe", "subwords wordpiece sentencepiece"},
    {"bytes", "chars characters"},
    {"cross_entropy",
     "ce nll softmax softmaxcrossentropy categoricalcrossentropy sparsecategoricalcrossentropy"},
    {"sigmoid", "bce bcewithlogits binarycrossentropy logistic"},
    {"squared", "mse l2 meansquarederror regression"},
    {"smooth_l1", "huber"},
    {"poisson", "poissonnll"},
    {"cosine", "cosineannealing cosinedecay"},
    {"polynomial", "poly"},
    {"inverse_sqrt", "inversesquareroot"},
    {"sgd", "momentum"},
    {"fp16", "half float16"},
    {"onebit", "1bit"},
    {"unbounded", "inf infinite infinity unlimited async"},
};

// Empty: it is not known.
absl::string_view OursOf(absl::string_view word, std::span<const Called> names) {
  for (const Called& name : names) {
    for (const absl::string_view theirs : absl::StrSplit(name.theirs, ' ')) {
      if (theirs == word) return name.ours;
    }
  }
  return "";
}

constexpr absl::string_view kOfOptimizers = "optimizer.sgd.";

// Says under which name this optimizer has sgd's key, or that it lacks the key.
std::string HintAtOptimizer(absl::string_view key, absl::string_view optimizer) {
  if (optimizer.empty()) {
    return absl::StrCat("; psgd calls it ", kOfOptimizers, key, " (or of another optimizer)");
  }
  const google::protobuf::Descriptor& type =
      *OptimizerConfig::descriptor()->FindFieldByName(std::string(optimizer))->message_type();
  if (type.FindFieldByName(std::string(key)) != nullptr) {
    return absl::StrCat("; psgd calls it optimizer.", optimizer, ".", key);
  }
  const std::vector<std::string> keys = KeysOf(type);
  return absl::StrCat("; optimizer.", optimizer, " has no ", key,
                      keys.empty() ? "" : absl::StrCat(", but ", absl::StrJoin(keys, ", ")));
}

}  // namespace

std::string OptimizerOf(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer();
  const google::protobuf::OneofDescriptor* kind = OptimizerConfig::descriptor()->oneof_decl(0);
  const auto* chosen = optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, kind);
  return chosen == nullptr ? "" : chosen->name();
}

std::string HintForOtherName(absl::string_view name, absl::string_view section,
                             absl::string_view optimizer) {
  const absl::string_view ours_is = OursOf(absl::AsciiStrToLower(name), kKeys);
  if (ours_is.empty()) return "";
  absl::string_view key = ours_is;
  const bool of_optimizer = absl::ConsumePrefix(&key, kOfOptimizers);
  if (of_optimizer && absl::StrContains(absl::StrCat(".", section), ".optimizer.")) {
    return key == name ? "" : absl::StrCat("; psgd calls it ", key);
  }
  // Elsewhere, as in local or compression, a hint at another section would mislead.
  const bool is_general =
      section == "train" || section == "data" || section == "model" || section == "cluster";
  if (!section.empty() && !is_general && !absl::StartsWith(ours_is, absl::StrCat(section, ".")))
    return "";
  if (of_optimizer) return HintAtOptimizer(key, optimizer);
  const bool is_advice = absl::StartsWith(ours_is, "use ") || absl::StartsWith(ours_is, "leave ");
  return absl::StrCat(is_advice ? "; " : "; psgd calls it ", ours_is);
}

std::string HintForOtherValue(absl::string_view value, const std::vector<std::string>& choices) {
  const auto compact = [](absl::string_view word) {
    const std::string text =
        absl::StrReplaceAll(absl::AsciiStrToLower(word), {{"-", ""}, {"_", ""}, {" ", ""}});
    return std::string(absl::StripSuffix(absl::StripSuffix(text, "loss"), "lr"));
  };
  const std::string word = compact(value);
  if ((word == "words" || word == "word") && std::ranges::count(choices, "bpe") > 0) {
    return "; psgd has no tokens of whole words: bpe learns frequent parts of words";
  }
  const absl::string_view ours_is = OursOf(word, kValues);
  for (const std::string& choice : choices) {
    if (compact(choice) == word || choice == ours_is)
      return absl::StrCat("; psgd calls it ", choice);
  }
  return "";
}

std::string HintForOption(const std::string& option, const std::string& value,
                          absl::string_view optimizer) {
  if (!absl::StartsWith(option, "--")) return "";
  std::string name = absl::StrReplaceAll(option.substr(2), {{"-", "_"}});
  if (name == "optimizer") return absl::StrCat("; say --set optimizer.", value, "={}");
  const std::string hint = HintForOtherName(name == "model" ? "arch" : name, "", optimizer);
  absl::string_view key = hint;
  if (!absl::ConsumePrefix(&key, "; psgd calls it ")) return hint;
  const size_t end = std::min(key.find_first_of(" ,:"), key.size());
  // The option's value does not fit our key: the value of --async is not a staleness.
  if (end < key.size() && !absl::StartsWith(key.substr(end), " (")) return hint;
  return absl::StrCat("; say --set ", key.substr(0, end), "=", value, key.substr(end));
}

}  // namespace psgd
