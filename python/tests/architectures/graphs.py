"""Networks on graphs."""
import torch
import torch.nn.functional as F
from torch import nn

from .common import ARCHITECTURES, REFUSED, architecture, draws


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x, edges):
        h = F.relu(self.first(x))
        return self.second(torch.zeros_like(h).index_add(0, edges[1], h[edges[0]]))


@architecture
def graph_convolution():
    g = draws(3)
    batch = {"x": torch.randn(20, 8, generator=g), "edges": torch.randint(0, 20, (2, 60), generator=g),
             "y": torch.randint(0, 4, (20,), generator=g)}
    return GraphConvolution, (lambda m, b: F.cross_entropy(m(b["x"], b["edges"]), b["y"])), batch


def of_graph(name, **sizes):
    """A network of torch_geometric on one fixed graph, whose edges are a constant of the loss function."""
    import torch_geometric.nn

    g = draws(3)
    edges = torch.randint(0, 20, (2, 60), generator=g)
    batch = {"x": torch.randn(20, 8, generator=g), "y": torch.randint(0, 4, (20,), generator=g)}
    return (lambda: getattr(torch_geometric.nn, name)(8, 16, num_layers=2, out_channels=4, **sizes)), (
        lambda m, b: F.cross_entropy(m(b["x"], edges), b["y"])), batch


ARCHITECTURES["geometric_gcn"] = lambda: of_graph("GCN")
ARCHITECTURES["geometric_gat"] = lambda: of_graph("GAT", heads=2, v2=True)
ARCHITECTURES["geometric_sage"] = lambda: of_graph("GraphSAGE")


def of_edges_in_batch(name, **sizes):
    make, _, batch = of_graph(name, **sizes)
    batch["edges"] = torch.randint(0, 20, (2, 60), generator=draws(3))
    return make, (lambda m, b: F.cross_entropy(m(b["x"], b["edges"]), b["y"])), batch


@architecture
def geometric_gcn_edges_in_batch():
    """A GCN whose edges have self-loops and weights already."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    make, _, batch = of_edges_in_batch("GCN", normalize=False)
    batch["edges"], batch["weights"] = gcn_norm(batch["edges"], num_nodes=20)
    return make, (lambda m, b: F.cross_entropy(m(b["x"], b["edges"], edge_weight=b["weights"]), b["y"])), batch


ARCHITECTURES["geometric_gat_edges_in_batch"] = lambda: of_edges_in_batch("GAT", heads=2, add_self_loops=False)
ARCHITECTURES["geometric_gcn_adds_loops"] = lambda: of_edges_in_batch("GCN")
REFUSED["geometric_gcn_adds_loops"] = "aten::nonzero"
