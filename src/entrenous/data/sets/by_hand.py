"""Data sets of the field that the user downloads by hand, most of them after a licence is accepted.
No address could be tried where this file was written.
"""

from __future__ import annotations

from ..fetch import Archive
from ..recipe import ItemsFile, Recipe, datasets_of

GROUPLENS = "research use, no redistribution, cite Cantador et al. 2011 (GroupLens)"
HETREC = (
    "I. Cantador, P. Brusilovsky, T. Kuflik: Second Workshop on Information Heterogeneity and"
    " Fusion in Recommender Systems. RecSys 2011"
)
TENREC = "G. Yuan et al.: Tenrec: A Large-scale Multipurpose Benchmark Dataset. NeurIPS 2022"


def _tenrec(scene: str, kind: str) -> Recipe:
    return Recipe(
        name=f"tenrec-{scene.lower()}",
        summary=f"clicks on {kind} (Tenrec); rows with click=0 are left out, no times",
        preset="tenrec",
        files=(f"{scene}.csv",),
        origin=f"tenrec0.github.io, after a form: {scene}.csv",
        terms="research use under Tencent's agreement; no redistribution",
        citation=TENREC,
        folder="tenrec",
    )


RECIPES = (
    Recipe(
        name="lastfm-2k",
        summary="plays of artists: 1,892 users x 17,632 artists, 92,834 rows, no times",
        preset="lastfm-hetrec",
        files=("user_artists.dat",),
        origin="files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip:"
        " user_artists.dat and artists.dat",
        terms=GROUPLENS,
        citation=HETREC,
        items=ItemsFile("artists.dat", {"title": "name"}, {"delimiter": "tab"}),
        sources=(
            Archive(
                "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
                "6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
                {name: name for name in ("user_artists.dat", "artists.dat")},
            ),
        ),
    ),
    Recipe(
        name="hetrec-2k",
        summary="film ratings 0.5 to 5: 2,113 users x 10,109 films, 855,598 rows",
        preset="hetrec-movielens",
        files=("user_ratedmovies-timestamps.dat",),
        origin="files.grouplens.org/datasets/hetrec2011/hetrec2011-movielens-2k-v2.zip:"
        " user_ratedmovies-timestamps.dat and movies.dat",
        terms=GROUPLENS,
        citation=HETREC,
        items=ItemsFile(
            "movies.dat", {"title": "title"}, {"delimiter": "tab", "encoding": "latin-1"}
        ),
    ),
    Recipe(
        name="filmtrust",
        summary="film ratings 0.5 to 4: 1,508 users x 2,071 films, 35,497 rows, no times",
        preset="filmtrust",
        files=("ratings.txt",),
        origin="guoguibing.github.io/librec/datasets/filmtrust.zip: ratings.txt",
        terms="research use; no licence stated; cite Guo et al. 2013",
        citation="G. Guo, J. Zhang, N. Yorke-Smith: Bayesian Similarity Measure. IJCAI 2013",
    ),
    *(
        Recipe(
            name=f"douban-{kind}",
            summary=f"ratings 1 to 5 of {what} (Douban)",
            preset="douban",
            files=(f"{kind}reviews_cleaned.txt",),
            origin=f"the Douban data set of Zhu et al.: {kind}reviews_cleaned.txt",
            terms="research use; no licence stated; cite Zhu et al.",
            citation="F. Zhu et al.: A Graphical and Attentional Framework. IJCAI 2020",
            folder="douban",
        )
        for kind, what in (("movie", "films"), ("book", "books"), ("music", "music"))
    ),
    Recipe(
        name="gowalla",
        summary="check-ins at places: 107,092 users x 1,280,969 places, 6,442,892 check-ins",
        preset="gowalla",
        files=("Gowalla_totalCheckins.txt", "loc-gowalla_totalCheckins.txt.gz"),
        origin="snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
        terms="research use; no licence stated; cite Cho et al. 2011",
        citation="E. Cho, S. Myers, J. Leskovec: Friendship and Mobility. KDD 2011",
    ),
    Recipe(
        name="yelp",
        summary="ratings 1 to 5 of businesses: about 7 million reviews",
        preset="yelp",
        files=("yelp_academic_dataset_review.json",),
        origin="yelp.com/dataset, after its agreement: yelp_academic_dataset_review.json and"
        " yelp_academic_dataset_business.json",
        terms="academic use under Yelp's dataset agreement; no redistribution",
        citation="Yelp Open Dataset, yelp.com/dataset",
        items=ItemsFile(
            "yelp_academic_dataset_business.json",
            {"title": "name", "category": "categories", "lat": "latitude", "lon": "longitude"},
        ),
    ),
    Recipe(
        name="steam",
        summary="reviews of games, all of which count: about 2.6 million users, 7.8 million rows",
        preset="steam",
        files=("steam_reviews.json.gz",),
        origin="cseweb.ucsd.edu/~jmcauley/datasets.html, Steam: steam_reviews.json.gz",
        terms="research use; no licence stated; cite Kang and McAuley 2018",
        citation="W.-C. Kang, J. McAuley: Self-Attentive Sequential Recommendation. ICDM 2018",
    ),
    *(
        Recipe(
            name=name,
            summary=f"views of videos, the value is the share watched: {counts}",
            preset="kuairec",
            files=(file,),
            origin=f"kuairec.com: {file}",
            terms="CC BY-SA 4.0",
            citation="C. Gao et al.: KuaiRec: A Fully-observed Dataset. CIKM 2022",
            asks="a view of any share is a row, also one of nothing: say from which share on it is"
            " a like, such as likes=at_least=2, or likes=positive",
            folder="kuairec",
        )
        for name, file, counts in (
            ("kuairec", "big_matrix.csv", "7,176 users x 10,728 videos, 12,530,806 rows"),
            ("kuairec-small", "small_matrix.csv", "1,411 users x 3,327 videos, 4,676,570 rows"),
        )
    ),
    Recipe(
        name="mind",
        summary="news read and clicked; what was shown and not clicked is left out",
        preset="mind",
        files=("behaviors.tsv",),
        origin="msnews.github.io, after its terms: behaviors.tsv and news.tsv of one part",
        terms="Microsoft Research License: research use, no redistribution",
        citation="F. Wu et al.: MIND: A Large-scale Dataset for News Recommendation. ACL 2020",
        items=ItemsFile("news.tsv", {"title": "title", "category": "category"}),
    ),
    Recipe(
        name="netflix",
        summary="film ratings 1 to 5: 480,189 users x 17,770 films, 100,480,507 rows",
        preset="netflix",
        files=("combined_data_1.txt",),
        origin="kaggle.com/datasets/netflix-inc/netflix-prize-data: combined_data_1.txt to"
        " combined_data_4.txt",
        terms="research use; withdrawn by Netflix; no redistribution",
        citation="J. Bennett, S. Lanning: The Netflix Prize. KDD Cup 2007",
    ),
    _tenrec("QK-video", "videos"),
    _tenrec("QB-video", "videos"),
    _tenrec("QK-article", "articles"),
    _tenrec("QB-article", "articles"),
)
DATASETS = datasets_of(RECIPES)
