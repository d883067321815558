#pragma once
// Memory of graphs: allocation nodes, whose memory the driver maps at the launch and keeps until it
// is trimmed.

namespace preload {

/// Notes that this process makes graphs that allocate; until then launches cost nothing.
void graph_memory_seen();

/// Charges what the driver holds for graphs now.
void refresh_graph_memory();

/// Gives unused graph memory back. `first`: the first share of the device.
void trim_graph_memory(int first);

/// Forgets everything, in a forked child.
void forget_graphs();

}  // namespace preload
