// Registers the classes and functions that Python's package plimsoll uses. They carry tensors and text through
// TorchBind, so that one library serves every Python that has this version of torch.
#include <torch/custom_class.h>
#include <torch/library.h>

#include "python/session.h"

namespace plimsoll::python {

TORCH_LIBRARY(plimsoll_python, m) {
  m.class_<Session>("Session")
      .def(torch::init<int64_t, const std::string&,
                       const std::vector<std::tuple<std::string, std::vector<int64_t>, int64_t>>&, const std::string&,
                       bool>())
      .def("input", &Session::input)
      .def("add", &Session::add)
      .def("set_loss", &Session::set_loss)
      .def("plan", &Session::plan)
      .def("report", &Session::report)
      .def("page", &Session::page)
      .def("frontier", &Session::frontier)
      .def("start", &Session::start)
      .def("step", &Session::step)
      .def("evaluate", &Session::evaluate)
      .def("state", &Session::state)
      .def("save", &Session::save)
      .def("load", &Session::load)
      .def("used_bytes", &Session::used_bytes)
      .def("steps", &Session::steps)
      .def("close", &Session::close);
  m.def("last_error() -> str", last_error);
  m.def("devices() -> str", devices);
  m.def("set_module(str path) -> ()", set_recorded_module);
  m.def("learning_rate(str options, int step, int steps) -> float", learning_rate);
}

}  // namespace plimsoll::python
