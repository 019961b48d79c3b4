"""IRDL definitions of the operations in printed kernels and programs, apart from steps.

Values of expressions are scalars, indices have MLIR's type `index`, and buffers are tensors with `?` for extents that
are not constant.
"""

from __future__ import annotations

KERNEL = """\
  irdl.operation @buffer {
    %t = irdl.base "!builtin.tensor"
    %n = irdl.base "#builtin.string"
    %e = irdl.base "#builtin.array"
    %s = irdl.base "#builtin.array"
    %w = irdl.base "#builtin.integer"
    irdl.attributes {"name" = %n, "shape" = %e, "strides" = %s, "written" = %w}
    irdl.results(buffer: %t)
  }
  irdl.operation @extent {
    %t = irdl.is i64
    %n = irdl.base "#builtin.string"
    irdl.attributes {"name" = %n}
    irdl.results(extent: %t)
  }
  irdl.operation @axis {
    %t = irdl.is index
    %n = irdl.base "#builtin.string"
    %e0 = irdl.base "#builtin.integer"
    %e1 = irdl.base "#builtin.string"
    %e = irdl.any_of(%e0, %e1)
    %k0 = irdl.is "parallel"
    %k1 = irdl.is "reduce"
    %k = irdl.any_of(%k0, %k1)
    irdl.attributes {"name" = %n, "extent" = %e, "kind" = %k}
    irdl.results(axis: %t)
  }
  irdl.operation @constant {
    %t = irdl.any
    %v0 = irdl.base "#builtin.integer"
    %v1 = irdl.base "#builtin.float"
    %v = irdl.any_of(%v0, %v1)
    irdl.attributes {"value" = %v}
    irdl.results(value: %t)
  }
  irdl.operation @parameter {
    %i = irdl.is i64
    %t = irdl.any
    irdl.operands(bits: %i)
    irdl.results(value: %t)
  }
  irdl.operation @position {
    %i = irdl.is index
    %t = irdl.is i64
    irdl.operands(axis: %i)
    irdl.results(value: %t)
  }
  irdl.operation @index {
    %t = irdl.any
    %i = irdl.is index
    irdl.operands(value: %t)
    irdl.results(index: %i)
  }
  irdl.operation @load {
    %b = irdl.base "!builtin.tensor"
    %i = irdl.is index
    %t = irdl.any
    %m = irdl.base "#builtin.affine_map"
    irdl.operands(buffer: %b, indices: variadic %i)
    irdl.attributes {"index" = %m}
    irdl.results(element: %t)
  }
  irdl.operation @scalar {
    %x = irdl.any
    %y = irdl.any
    %t = irdl.any
    %n = irdl.base "#builtin.string"
    irdl.operands(first: %x, rest: variadic %y)
    irdl.attributes {"op" = %n}
    irdl.results(value: %t)
  }
  irdl.operation @cast {
    %x = irdl.any
    %t = irdl.any
    irdl.operands(value: %x)
    irdl.results(result: %t)
  }
  irdl.operation @reduce {
    %i = irdl.is index
    %t = irdl.any
    %n = irdl.base "#builtin.string"
    %g = irdl.region with size 1
    irdl.operands(axes: variadic %i)
    irdl.attributes {"op" = %n}
    irdl.regions(body: %g)
    irdl.results(value: %t)
  }
  irdl.operation @window {
    %i = irdl.is index
    %e0 = irdl.base "#builtin.integer"
    %e1 = irdl.base "#builtin.string"
    %e = irdl.any_of(%e0, %e1)
    %s = irdl.base "#builtin.integer"
    %d = irdl.base "#builtin.integer"
    %l = irdl.base "#builtin.integer"
    %n = irdl.base "#builtin.integer"
    irdl.operands(out: %i, tap: %i)
    irdl.attributes {"extent" = %e, "stride" = %s, "dilation" = %d, "low" = %l, "interior" = %n}
    irdl.results(element: %i)
  }
  irdl.operation @contract {
    %i = irdl.is index
    %t = irdl.any
    %k0 = irdl.is "product"
    %k1 = irdl.is "convolution"
    %k2 = irdl.is "weight_gradient"
    %k = irdl.any_of(%k0, %k1, %k2)
    %a = irdl.base "#builtin.type"
    %g = irdl.region with size 1
    irdl.operands(batch: variadic %i, rows: variadic %i, columns: variadic %i, inner: variadic %i)
    irdl.attributes {"kind" = %k, "accumulator" = %a}
    irdl.regions(body: %g)
    irdl.results(value: %t)
  }
  irdl.operation @local {
    %i = irdl.is index
    %t = irdl.any
    %n = irdl.base "#builtin.string"
    %g = irdl.region with size 1
    irdl.operands(axes: variadic %i)
    irdl.attributes {"name" = %n}
    irdl.regions(body: %g)
    irdl.results(element: %t)
  }
  irdl.operation @store {
    %b = irdl.base "!builtin.tensor"
    %i = irdl.is index
    %m = irdl.base "#builtin.affine_map"
    %g = irdl.region with size 1
    irdl.operands(buffer: %b, indices: variadic %i)
    irdl.attributes {"index" = %m}
    irdl.regions(body: %g)
  }"""

PROGRAM = """\
  irdl.operation @input {
    %t = irdl.base "!builtin.tensor"
    %i = irdl.base "#builtin.integer"
    %p = irdl.base "#builtin.integer"
    %s = irdl.base "#builtin.integer"
    %d = irdl.base "#builtin.integer"
    irdl.attributes {"index" = %i, "parameter" = %p, "state" = %s, "draws" = %d}
    irdl.results(tensor: %t)
  }
  irdl.operation @output {
    %t = irdl.base "#builtin.type"
    %i = irdl.base "#builtin.integer"
    irdl.attributes {"index" = %i, "type" = %t}
  }
  irdl.operation @function {
    %l = irdl.base "#builtin.string"
    %i = irdl.base "#builtin.integer"
    irdl.attributes {"index" = %i, "label" = %l}
  }
  irdl.operation @memory {
    %b = irdl.base "#builtin.integer"
    %s = irdl.base "#builtin.string"
    irdl.attributes {"space" = %s, "bytes" = %b}
  }
  irdl.operation @prepare {
    %g = irdl.region with size 1
    irdl.regions(launches: %g)
  }"""
"""The operations of the program dialect apart from steps, whose definitions follow from their fields."""
