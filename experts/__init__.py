"""The decentralized mixture of experts: a layer whose experts lie on machines of volunteers, and their hosts.

Source: Ryabinin and Gusev, "Towards Crowdsourced Training of Large Neural Networks using Decentralized
Mixture-of-Experts", NeurIPS 2020.
"""
