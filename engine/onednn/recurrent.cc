#include <algorithm>

#include "engine/onednn/lower.h"
#include "engine/ops/recurrent_cell.h"

// Products run over whole sequences at once, except h w_hh^T and its backward pass, which run step
// by step. oneDNN's own cells would need reordered weights every step.
namespace psgd::onednn {
namespace {

constexpr auto kFloat = dnnl::memory::data_type::f32;

// A row-major matrix; `stride` elements lie between its rows.
struct Matrix {
  float* data;
  int64_t stride;
};

// c = a b + keep c; a is m x k and b is k x n. Each may be stored transposed.
void Multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const Matrix& a,
              const Matrix& b, float keep, const Matrix& c) {
  dnnl::sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a.data, a.stride,
              b.data, b.stride, keep, c.data, c.stride);
}

void FillRows(const float* row, int64_t rows, int64_t width, float* to) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(row, width, to + r * width);
}

void SumRows(const float* from, int64_t rows, int64_t width, float* sum) {
  std::fill_n(sum, width, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) sum[i] += from[r * width + i];
  }
}

struct RecurrentSizes {
  RecurrentSizes(const Recurrent& op, const Shape& x, int64_t hidden)
      : batch(x[0]),
        steps(x[1]),
        inputs(x[2]),
        width(hidden),
        rows(op.gates() * hidden),
        kept(op.saved() * hidden) {}

  int64_t batch, steps, inputs, width;
  int64_t rows;  // of the weights
  int64_t kept;  // values saved at a step
};

// The previous step's results for sample n. `saved` and `y` hold all samples and steps.
CellBefore<float> Before(const RecurrentSizes& s, int64_t n, int64_t step, const float* saved,
                         const float* y) {
  if (step == 0) return {};
  const int64_t place = n * s.steps + step - 1;
  return {saved + place * s.kept, y + place * s.width};
}

struct ForwardMemory {
  float *x, *w_ih, *w_hh, *b_ih, *b_hh, *y, *saved;
  float *a, *b;  // scratch: inputs of the gates; a of all steps, b of one
};

void RunForward(const Recurrent& op, const RecurrentSizes& s, const ForwardMemory& m) {
  FillRows(m.b_ih, s.batch * s.steps, s.rows, m.a);
  Multiply(false, true, s.batch * s.steps, s.rows, s.inputs, {m.x, s.inputs}, {m.w_ih, s.inputs}, 1,
           {m.a, s.rows});
  for (int64_t step = 0; step < s.steps; ++step) {
    FillRows(m.b_hh, s.batch, s.rows, m.b);
    if (step > 0) {
      Multiply(false, true, s.batch, s.rows, s.width,
               {m.y + (step - 1) * s.width, s.steps * s.width}, {m.w_hh, s.width}, 1,
               {m.b, s.rows});
    }
#pragma omp parallel for
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t place = n * s.steps + step;
      RunCell(op, s.width, m.a + place * s.rows, m.b + n * s.rows, Before(s, n, step, m.saved, m.y),
              m.saved + place * s.kept, m.y + place * s.width);
    }
  }
}

struct BackwardMemory {
  float *x, *w_ih, *w_hh, *y, *saved, *dy;
  float *dw_ih, *dw_hh, *db_ih, *db_hh, *dx;  // dx may be null
  // Scratch for all steps: da and db, the gradients of the gates' inputs, and last, the previous h.
  // Scratch for one step: dh and carry.
  float *da, *db, *last, *dh, *carry;
};

void RunBackward(const Recurrent& op, const RecurrentSizes& s, const BackwardMemory& m) {
  const int64_t places = s.batch * s.steps;
  std::fill_n(m.dh, s.batch * s.width, 0.0f);
  std::fill_n(m.carry, s.batch * s.width, 0.0f);
  for (int64_t step = s.steps - 1; step >= 0; --step) {
#pragma omp parallel for
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t place = n * s.steps + step;
      float *dh = m.dh + n * s.width, *carry = m.carry + n * s.width;
      for (int64_t j = 0; j < s.width; ++j) dh[j] += m.dy[place * s.width + j];
      const CellBefore<float> before = Before(s, n, step, m.saved, m.y);
      RunCellBackward(op, s.width, m.saved + place * s.kept, before, dh, carry,
                      m.da + place * s.rows, m.db + place * s.rows);
      float* last = m.last + place * s.width;
      if (before.h == nullptr) {
        std::fill_n(last, s.width, 0.0f);
      } else {
        std::copy_n(before.h, s.width, last);
      }
      if (op.kind == Recurrent::Kind::kGru) std::copy_n(carry, s.width, dh);
    }
    const float keep = op.kind == Recurrent::Kind::kGru ? 1.0f : 0.0f;
    Multiply(false, false, s.batch, s.width, s.rows, {m.db + step * s.rows, s.steps * s.rows},
             {m.w_hh, s.width}, keep, {m.dh, s.width});
  }
  Multiply(true, false, s.rows, s.inputs, places, {m.da, s.rows}, {m.x, s.inputs}, 0,
           {m.dw_ih, s.inputs});
  Multiply(true, false, s.rows, s.width, places, {m.db, s.rows}, {m.last, s.width}, 0,
           {m.dw_hh, s.width});
  SumRows(m.da, places, s.rows, m.db_ih);
  SumRows(m.db, places, s.rows, m.db_hh);
  if (m.dx == nullptr) return;
  Multiply(false, false, places, s.inputs, s.rows, {m.da, s.rows}, {m.w_ih, s.inputs}, 0,
           {m.dx, s.inputs});
}

BufferId Scratch(Lowering& l, int64_t count) {
  return l.Temporary(Desc({count}, kFloat, Tag::a)).buffer;
}

}  // namespace

void Lower(const Recurrent& op, const Context& c) {
  Lowering& l = c.lowering;
  const RecurrentSizes s(op, l.graph().shape(c.in(0)), l.graph().shape(c.out(0))[2]);
  std::vector<BufferId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(l.GetPlain(c.in(i)).buffer);
  for (int i = 0; i < 2; ++i) ids.push_back(l.PutPlain(c.out(i)).buffer);
  ids.push_back(Scratch(l, s.batch * s.steps * s.rows));
  ids.push_back(Scratch(l, s.batch * s.rows));
  l.Call([=](const Buffers& buffers, const Step&) {
    const auto at = [&](int i) { return static_cast<float*>(buffers[ids[i]]); };
    RunForward(op, s,
               {.x = at(0),
                .w_ih = at(1),
                .w_hh = at(2),
                .b_ih = at(3),
                .b_hh = at(4),
                .y = at(5),
                .saved = at(6),
                .a = at(7),
                .b = at(8)});
  });
}

void Lower(const RecurrentBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Recurrent forward = op.forward;
  const RecurrentSizes s(forward, l.graph().shape(c.in(0)), l.graph().shape(c.in(3))[2]);
  std::vector<BufferId> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(l.GetPlain(c.in(i)).buffer);
  for (int i = 0; i < 4; ++i) ids.push_back(l.PutPlain(c.out(i)).buffer);
  const int64_t places = s.batch * s.steps;
  for (int64_t count :
       {places * s.rows, places * s.rows, places * s.width, s.batch * s.width, s.batch * s.width}) {
    ids.push_back(Scratch(l, count));
  }
  const BufferId dx = c.has_out(4) ? l.PutPlain(c.out(4)).buffer : kNoBuffer;
  l.Call([=](const Buffers& buffers, const Step&) {
    const auto at = [&](int i) { return static_cast<float*>(buffers[ids[i]]); };
    float* wanted = dx == kNoBuffer ? nullptr : static_cast<float*>(buffers[dx]);
    RunBackward(forward, s,
                {.x = at(0),
                 .w_ih = at(1),
                 .w_hh = at(2),
                 .y = at(3),
                 .saved = at(4),
                 .dy = at(5),
                 .dw_ih = at(6),
                 .dw_hh = at(7),
                 .db_ih = at(8),
                 .db_hh = at(9),
                 .dx = wanted,
                 .da = at(10),
                 .db = at(11),
                 .last = at(12),
                 .dh = at(13),
                 .carry = at(14)});
  });
}

}  // namespace psgd::onednn
