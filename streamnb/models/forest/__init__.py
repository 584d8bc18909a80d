"""Aggregated Mondrian forests: random trees whose prunings are mixed exactly, learned event by event.

A tree splits the events at random, without regard to labels: a Mondrian process, whose splits get finer with
the time of the process. Each node predicts by the counts of the events that it holds,

    P_j(v) = (n_jv + 1 / K) / (n_j + 1)

and the tree by the posterior mean over all its prunings, of which each inner node is cut with probability
one half beforehand (context-tree weighting). Let W_j be the probability that node j gave to its labels, one
after the other, and A_j the mean of that over the prunings below it:

    A_j = W_j at a leaf, else (W_j + A_l A_r) / 2        r_j = A_l A_r / W_j
    q_j = P_j  at a leaf, else (P_j + r_j q_c) / (1 + r_j)        r_j <- r_j q_c(y) / P_j(y)

for the child c on the path of the event, and its label y. So one ratio for each inner node is enough, and
needs no logarithm. The forest predicts the mean of its trees.

An event outside of the box of a node extends the node by s_a in each attribute a. A split above the node
arrives at the rate sum(s_a); if it arrives before the split of the node, it divides attribute a, drawn in
proportion to s_a, at a place between the box and the event. A continuous value counts in mean deviations of
its attribute, and a nominal value that the box does not hold counts 1: the split is "this value or another".
A node whose events all have the label of the event is not split.

After every 250 events, the tree of the greatest log loss on these events is dropped, and starts again. A
stream that drifts thus renews its trees; one that does not keeps all but one.

    events -> run_forest: predict by all trees -> grow: boxes and splits -> weigh: ratios and counts

    module                content
    mondrian_kernels.py   the hot path
    node_arrays.py        the table of nodes, and the events, as arrays
    forest_table.py       nodes of all trees in one table: room, limits, state
    path_attribution.py   what the splits on the way to an event add

Invariants:

* Draws depend on the seed, the tree and the number of the event among the events learned. With additions,
  products, quotients and roots alone, the same events give the same bits on every processor.
* The cut into batches changes nothing. What was learned cannot be unlearned, only replayed.
* Nodes stay within the memory of the forest. Without room, trees are counted but not split further.
* Each row of the table is a node of one tree, or of one dropped subtree, whose root is in a list linked by
  PARENT. A new node takes the root of the first one, and leaves its children to the list.
* A class without examples has no part in a prediction, and an event of a new class changes no ratio.

References: Mourtada, Gaiffas and Scornet (2021), "AMF: aggregated Mondrian forests for online learning",
JRSS B 83(3); Lakshminarayanan, Roy and Teh (2014), "Mondrian forests", NIPS; Willems, Shtarkov and Tjalkens
(1995), "The context-tree weighting method", IEEE Transactions on Information Theory 41(3).

Start reading at `mondrian_kernels.py`.
"""
