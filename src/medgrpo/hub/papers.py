"""The papers that a run rests on, as BibTeX."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Paper:
    """One work to cite: what it is called here, its arXiv number (None: software), its BibTeX."""

    name: str
    arxiv: str | None
    bibtex: str


GRPO = Paper(
    "GRPO",
    "2402.03300",
    """@article{shao2024deepseekmath,
  title   = {{DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models}},
  author  = {Zhihong Shao and Peiyi Wang and Qihao Zhu and Runxin Xu and Junxiao Song and Xiao Bi and Haowei Zhang
             and Mingchuan Zhang and Y. K. Li and Y. Wu and Daya Guo},
  journal = {arXiv preprint arXiv:2402.03300},
  year    = {2024}
}""",
)
GSPO = Paper(
    "GSPO",
    "2507.18071",
    """@article{zheng2025gspo,
  title   = {{Group Sequence Policy Optimization}},
  author  = {Chujie Zheng and Shixuan Liu and Mingze Li and Xiong-Hui Chen and Bowen Yu and Chang Gao and Kai Dang
             and Yuqiong Liu and Rui Men and An Yang and Jingren Zhou and Junyang Lin},
  journal = {arXiv preprint arXiv:2507.18071},
  year    = {2025}
}""",
)
CHORD = Paper(
    "CHORD",
    "2508.11408",
    """@article{zhang2025chord,
  title   = {{On-Policy RL Meets Off-Policy Experts: Harmonizing Supervised Fine-Tuning and Reinforcement Learning
             via Dynamic Weighting}},
  author  = {Wenhao Zhang and Yuexiang Xie and Yuchang Sun and Yanxi Chen and Guoyin Wang and Yaliang Li and Bolin Ding
             and Jingren Zhou},
  journal = {arXiv preprint arXiv:2508.11408},
  year    = {2025}
}""",
)
MO_GRPO = Paper(
    "MO-GRPO",
    "2509.22047",
    """@article{ichihara2025mogrpo,
  title   = {{MO-GRPO: Mitigating Reward Hacking of Group Relative Policy Optimization on Multi-Objective Problems}},
  author  = {Yuki Ichihara and Yuu Jinnai and Tetsuro Morimura and Mitsuki Sakamoto and Ryota Mitsuhashi
             and Eiji Uchibe},
  journal = {arXiv preprint arXiv:2509.22047},
  year    = {2025}
}""",
)
GDPO = Paper(
    "GDPO",
    "2601.05242",
    """@article{liu2026gdpo,
  title   = {{GDPO: Group reward-Decoupled Normalization Policy Optimization for Multi-reward RL Optimization}},
  author  = {Shih-Yang Liu and Xin Dong and Ximing Lu and Shizhe Diao and Peter Belcak and Mingjie Liu and Min-Hung Chen
             and Hongxu Yin and Yu-Chiang Frank Wang and Kwang-Ting Cheng and Yejin Choi and Jan Kautz
             and Pavlo Molchanov},
  journal = {arXiv preprint arXiv:2601.05242},
  year    = {2026}
}""",
)
TRL = Paper(
    "TRL",
    None,
    """@software{vonwerra2020trl,
  title   = {{TRL: Transformers Reinforcement Learning}},
  author  = {von Werra, Leandro and Belkada, Younes and Tunstall, Lewis and Beeching, Edward and Thrush, Tristan and
             Lambert, Nathan and Huang, Shengyi and Rasul, Kashif and Gallou{\\'e}dec, Quentin},
  license = {Apache-2.0},
  url     = {https://github.com/huggingface/trl},
  year    = {2020}
}""",
)
_BY_ADVANTAGE = {"mo_grpo": MO_GRPO, "gdpo": GDPO}


def find_papers(arguments: Mapping[str, Any]) -> list[Paper]:
    """What a run with these settings (`run.json`'s `arguments`) rests on, GRPO first and TRL last."""
    papers = [GRPO]
    if arguments.get("importance_sampling_level") == "sequence":
        papers.append(GSPO)
    if "chord_mu_peak" in arguments:
        papers.append(CHORD)
    if arguments.get("advantage") in _BY_ADVANTAGE:
        papers.append(_BY_ADVANTAGE[arguments["advantage"]])
    return [*papers, TRL]
