// Examples of ps-ctl's commands, for --help.
#pragma once

namespace psgd {

inline constexpr char kStatusExamples[] = R"(  ps-ctl status --server 127.0.0.1:7070
  ps-ctl status --etcd 127.0.0.1:2379 --run my-run         # wherever its server is by now
  ps-ctl status --server head-node:7070 --tls-dir certs   # of a secured server
  ps-ctl status runs/fashion-mnist-20260101-120000 --json
)";
inline constexpr char kCheckpointExamples[] = R"(  ps-ctl checkpoint --server 127.0.0.1:7070
  ps-ctl checkpoint --server 127.0.0.1:7070 --name before-decay    # is never pruned
)";
inline constexpr char kCheckpointsExamples[] = R"(  ps-ctl checkpoints runs/wide
)";
inline constexpr char kVerifyExamples[] =
    R"(  ps-ctl verify runs/wide            # reads checkpoints and journal from end to end
)";
inline constexpr char kPruneExamples[] = R"(  ps-ctl prune runs/wide --keep 1
)";
inline constexpr char kExportExamples[] =
    R"(  ps-ctl export --run-dir runs/wide --out weights.safetensors
  ps-ctl export --run-dir runs/wide --onnx network.onnx    # the network, too, for other frameworks
  ps-ctl export --run-dir runs/wide --checkpoint best --average --out best.safetensors
)";
inline constexpr char kOnnxExamples[] =
    R"(  ps-ctl onnx check model.onnx               # what it needs, and what psgd refuses, before a run
  ps-ctl onnx check model.onnx --shape 3,224,224 --json
)";
inline constexpr char kEvalExamples[] = R"(  ps-ctl eval --server 127.0.0.1:7070
  ps-ctl eval --run-dir runs/wide --checkpoint 3 --json
)";
inline constexpr char kPredictExamples[] =
    R"(  ps-ctl predict --run-dir runs/houses --data new.csv               # a line a row, on stdout
  ps-ctl predict --run-dir runs/photos --checkpoint best --data photos/ --out classes.csv
)";
inline constexpr char kSetExamples[] = R"(  ps-ctl set --server 127.0.0.1:7070 learning_rate=0.01
)";
inline constexpr char kDrainExamples[] =
    R"(  ps-ctl drain --server 127.0.0.1:7070     # finish, take a checkpoint, end
  ps-ctl drain --server 127.0.0.1:7070 --worker 3    # that one leaves, the run goes on
)";
inline constexpr char kRebalanceExamples[] =
    R"(  ps-ctl rebalance --server 127.0.0.1:7070                        # shards as even as can be
  ps-ctl rebalance --server 127.0.0.1:7070 --move 0=2 --move 1=2  # those to server 2
)";
inline constexpr char kUiExamples[] =
    R"(  ps-ctl ui runs                      # a page that lists them and shows several side by side
)";

}  // namespace psgd
