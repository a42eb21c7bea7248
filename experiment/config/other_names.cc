#include "experiment/config/other_names.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "experiment/config/schema.h"

namespace psgd {

namespace {

constexpr absl::string_view kOfOptimizers = "optimizer.sgd.";

// Where the optimizer has a key that all of them call as sgd does.
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
  static const auto& ours = *new std::map<absl::string_view, const char*>{
      {"lr", "optimizer.sgd.learning_rate"},
      {"learning_rate", "optimizer.sgd.learning_rate"},
      {"momentum", "optimizer.sgd.momentum"},
      {"training", "train"},
      {"trainer", "train"},
      {"weight_decay", "optimizer.sgd.weight_decay"},
      {"wd", "optimizer.sgd.weight_decay"},
      {"lr_scheduler", "schedule"},
      {"scheduler", "schedule"},
      {"warmup", "schedule.warmup"},
      {"warmup_steps", "schedule.warmup, as 500 steps"},
      {"warmup_epochs", "schedule.warmup, as 2 epochs"},
      {"betas", "optimizer.adam.beta1 and optimizer.adam.beta2"},
      {"batch_size", "data.batch"},
      {"per_device_train_batch_size", "data.batch"},
      {"micro_batch_size", "data.micro_batch"},
      {"train_micro_batch_size_per_gpu", "data.micro_batch"},
      {"gradient_accumulation_steps", "data.micro_batch: data.batch divided by these steps"},
      {"accumulate_grad_batches", "data.micro_batch: data.batch divided by these batches"},
      {"accum_iter", "data.micro_batch: data.batch divided by these steps"},
      {"gradient_clipping", "train.clip.norm"},
      {"max_grad_norm", "train.clip.norm"},
      {"grad_clip", "train.clip.norm"},
      {"clip_grad", "train.clip.norm"},
      {"clip_grad_norm", "train.clip.norm"},
      {"gradient_clip_val", "train.clip.norm"},
      {"clipnorm", "train.clip.norm"},
      {"global_clipnorm", "train.clip.norm"},
      {"clip_norm", "train.clip.norm"},
      {"max_norm", "train.clip.norm"},
      {"clipvalue", "train.clip.value"},
      {"clip_grad_value", "train.clip.value"},
      {"clip_value", "train.clip.value"},
      {"param_groups", "optimizer.groups"},
      {"parameter_groups", "optimizer.groups"},
      {"lr_mult", "optimizer.groups.rate"},
      {"ema", "train.average"},
      {"use_ema", "train.average, as 0.999"},
      {"ema_decay", "train.average"},
      {"ema_momentum", "train.average"},
      {"model_ema_decay", "train.average"},
      {"early_stopping", "train.early_stop"},
      {"patience", "train.early_stop.patience"},
      {"early_stopping_patience", "train.early_stop.patience"},
      {"min_delta", "train.early_stop.least"},
      {"early_stopping_threshold", "train.early_stop.least"},
      {"save_best_only", "durability.keep_best"},
      {"save_best", "durability.keep_best"},
      {"load_best_model_at_end", "durability.keep_best"},
      {"save_top_k", "durability.keep_best, and durability.keep for the newest"},
      {"save_total_limit", "durability.keep"},
      {"max_to_keep", "durability.keep"},
      {"dataset", "data.format and data.path"},
      {"data_dir", "data.path"},
      {"dataroot", "data.path"},
      {"num_workers", "cluster.workers, or data.threads for threads that prepare batches"},
      {"image_size", "data.images.size"},
      {"img_size", "data.images.size"},
      {"test_size", "data.table.test_fraction, or data.text.test_fraction"},
      {"test_split", "data.table.test_fraction, or data.text.test_fraction"},
      {"shuffle", "leave it out: psgd deals the samples in a new order in each epoch"},
      {"mirror", "data.augment.flip"},
      {"horizontal_flip", "data.augment.flip"},
      {"max_length", "data.text.length, or data.translation.source_length"},
      {"seq_len", "data.text.length"},
      {"sequence_length", "data.text.length"},
      {"block_size", "data.text.length"},
      {"vocab_size", "data.vocabulary"},
      {"tokenizer", "data.tokens"},
      {"num_epochs", "train.epochs"},
      {"num_train_epochs", "train.epochs"},
      {"epochs", "train.epochs"},
      {"max_epochs", "train.epochs"},
      {"max_steps", "train.max_steps"},
      {"steps", "train.max_steps"},
      {"arch", "model.zoo"},
      {"architecture", "model.zoo"},
      {"network", "model.zoo"},
      {"activation",
       "leave it out: networks of model.zoo have their own; give another as model.onnx"},
      {"num_layers", "model.layers"},
      {"n_layer", "model.layers"},
      {"hidden_size", "model.width"},
      {"n_embd", "model.width"},
      {"num_heads", "model.heads"},
      {"n_head", "model.heads"},
      {"criterion", "model.loss"},
      {"loss", "model.loss"},
      {"world_size", "cluster.workers"},
      {"workers", "cluster.workers"},
      {"worker", "cluster.workers"},
      {"shards", "cluster.shards"},
      {"transport", "cluster.transport"},
      {"staleness", "consistency.staleness"},
      {"push", "compression.push"},
      {"codec", "compression.push"},
      {"num_servers", "cluster.servers"},
      {"ps", "cluster.servers"},
      {"num_shards", "cluster.shards"},
      {"replicas", "cluster.copies"},
      {"backend", "cluster.transport"},
      {"compressor", "compression.push"},
      {"compress_ratio", "compression.push.topk.density"},
      {"topk_ratio", "compression.push.topk.density"},
      {"ratio", "compression.push.topk.density"},
      {"density", "compression.push.topk.density"},
      {"max_staleness", "consistency.staleness"},
      {"staleness_threshold", "consistency.staleness"},
      {"sync", "consistency.staleness: 0"},
      {"async", "consistency.staleness: unbounded"},
      {"local_sgd_steps", "local.steps"},
      {"sync_every", "local.steps"},
      {"save_every", "durability.checkpoint"},
      {"save_steps", "durability.checkpoint, as 500 steps"},
      {"checkpoint", "durability.checkpoint"},
      {"checkpoint_interval", "durability.checkpoint"},
      {"timeout", "cluster.deadline"},
      {"heartbeat_timeout", "cluster.lease"},
      {"device", "use the option --gpu of ps-run and ps-worker"},
      {"gpus", "use the option --gpu of ps-run and ps-worker"},
      {"cuda", "use the option --gpu of ps-run and ps-worker"},
      {"precision", "use the option --precision of ps-run and ps-worker"},
      {"fp16", "use the option --precision of ps-run and ps-worker"},
      {"bf16", "use the option --precision of ps-run and ps-worker"},
      {"amp", "use the option --precision of ps-run and ps-worker"},
      {"output_dir", "use the option --run-dir of ps-run and ps-server"},
      {"log_dir", "use the option --run-dir of ps-run and ps-server"},
      {"run_dir", "use the option --run-dir of ps-run and ps-server"},
      {"port", "use the option --port of ps-server"},
      {"resume", "use the option --resume of ps-run"},
      {"seeds", "repeat.seeds, in a sweep"},
  };
  const auto found = ours.find(absl::AsciiStrToLower(name));
  if (found == ours.end()) return "";
  const absl::string_view ours_is = found->second;
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
  // As written without - and _, and without the end of a class, as in MSELoss and StepLR.
  static const auto& ours = *new std::map<absl::string_view, absl::string_view>{
      {"csv", "table"},
      {"tsv", "table"},
      {"pandas", "table"},
      {"npz", "arrays"},
      {"npy", "arrays"},
      {"numpy", "arrays"},
      {"imagefolder", "images"},
      {"folder", "images"},
      {"jpeg", "images"},
      {"jpg", "images"},
      {"png", "images"},
      {"webdataset", "images"},
      {"mnist", "idx"},
      {"fashionmnist", "idx"},
      {"masks", "segmentation"},
      {"svmlight", "libsvm"},
      {"movielens", "ratings"},
      {"txt", "text"},
      {"textclassification", "text_classes"},
      {"seq2seq", "translation"},
      {"subwords", "bpe"},
      {"wordpiece", "bpe"},
      {"sentencepiece", "bpe"},
      {"chars", "bytes"},
      {"characters", "bytes"},
      {"ce", "cross_entropy"},
      {"nll", "cross_entropy"},
      {"softmax", "cross_entropy"},
      {"softmaxcrossentropy", "cross_entropy"},
      {"categoricalcrossentropy", "cross_entropy"},
      {"sparsecategoricalcrossentropy", "cross_entropy"},
      {"bce", "sigmoid"},
      {"bcewithlogits", "sigmoid"},
      {"binarycrossentropy", "sigmoid"},
      {"logistic", "sigmoid"},
      {"mse", "squared"},
      {"l2", "squared"},
      {"meansquarederror", "squared"},
      {"regression", "squared"},
      {"huber", "smooth_l1"},
      {"poissonnll", "poisson"},
      {"cosineannealing", "cosine"},
      {"cosinedecay", "cosine"},
      {"poly", "polynomial"},
      {"inversesquareroot", "inverse_sqrt"},
      {"momentum", "sgd"},
      {"half", "fp16"},
      {"float16", "fp16"},
      {"1bit", "onebit"},
      {"inf", "unbounded"},
      {"infinite", "unbounded"},
      {"infinity", "unbounded"},
      {"unlimited", "unbounded"},
      {"async", "unbounded"},
  };
  const auto compact = [](absl::string_view word) {
    const std::string text =
        absl::StrReplaceAll(absl::AsciiStrToLower(word), {{"-", ""}, {"_", ""}, {" ", ""}});
    return std::string(absl::StripSuffix(absl::StripSuffix(text, "loss"), "lr"));
  };
  const std::string word = compact(value);
  if ((word == "words" || word == "word") && std::ranges::count(choices, "bpe") > 0) {
    return "; psgd has no tokens of whole words: bpe learns frequent parts of words";
  }
  const auto known = ours.find(word);
  for (const std::string& choice : choices) {
    if (compact(choice) == word || (known != ours.end() && known->second == choice))
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
  // The option's value is not the key's, as --async is a number.
  if (end < key.size() && !absl::StartsWith(key.substr(end), " (")) return hint;
  return absl::StrCat("; say --set ", key.substr(0, end), "=", value, key.substr(end));
}

}  // namespace psgd
