"""Amazon's reviews by category, in the editions of 2018 (Ni et al. 2019) and 2023 (Hou et al.
2024), and Amazon Video of 2014. A category is a separate data set, `amazon-2023-Video_Games`.
"""

from __future__ import annotations

from ..recipe import Recipe, datasets_of

TERMS = "research use; no licence stated, so do not redistribute; cite the paper"
# The names of the categories, between blanks.
CATEGORIES_2018 = (
    "All_Beauty AMAZON_FASHION Appliances Arts_Crafts_and_Sewing Automotive Books CDs_and_Vinyl"
    " Cell_Phones_and_Accessories Clothing_Shoes_and_Jewelry Digital_Music Electronics Gift_Cards"
    " Grocery_and_Gourmet_Food Home_and_Kitchen Industrial_and_Scientific Kindle_Store"
    " Luxury_Beauty Magazine_Subscriptions Movies_and_TV Musical_Instruments Office_Products"
    " Patio_Lawn_and_Garden Pet_Supplies Prime_Pantry Software Sports_and_Outdoors"
    " Tools_and_Home_Improvement Toys_and_Games Video_Games"
)
CATEGORIES_2023 = (
    "All_Beauty Amazon_Fashion Appliances Arts_Crafts_and_Sewing Automotive Baby_Products"
    " Beauty_and_Personal_Care Books CDs_and_Vinyl Cell_Phones_and_Accessories"
    " Clothing_Shoes_and_Jewelry Digital_Music Electronics Gift_Cards Grocery_and_Gourmet_Food"
    " Handmade_Products Health_and_Household Health_and_Personal_Care Home_and_Kitchen"
    " Industrial_and_Scientific Kindle_Store Magazine_Subscriptions Movies_and_TV"
    " Musical_Instruments Office_Products Patio_Lawn_and_Garden Pet_Supplies Software"
    " Sports_and_Outdoors Subscription_Boxes Tools_and_Home_Improvement Toys_and_Games Video_Games"
    " Unknown"
)


def _recipe(year: str, category: str) -> Recipe:
    endings = {
        "2018": ("_5.json.gz", ".json.gz", "_5.json", ".json", ".csv"),
        "2023": (".jsonl.gz", ".jsonl", ".csv.gz", ".csv"),
    }[year]
    page = {
        "2018": "nijianmo.github.io/amazon (after a form)",
        "2023": "amazon-reviews-2023.github.io",
    }[year]
    citation = {
        "2018": "J. Ni, J. Li, J. McAuley: Justifying Recommendations. EMNLP 2019",
        "2023": "Y. Hou et al.: Bridging Language and Items for Retrieval. arXiv 2403.03952, 2024",
    }[year]
    return Recipe(
        name=f"amazon-{year}-{category}",
        summary=f"ratings 1 to 5 of products: {category.replace('_', ' ')}, {year}",
        preset=f"amazon-{year}",
        files=tuple(category + ending for ending in endings),
        origin=f"{page}: reviews or ratings only of {category}",
        terms=TERMS,
        citation=citation,
        folder=f"amazon-{year}",
        family=f"amazon-{year}-CATEGORY",
    )


VIDEO = Recipe(
    name="amazon-video",
    summary="ratings 1 to 5 of videos: Amazon Instant Video, 2014",
    preset="amazon-2014",
    files=(
        "reviews_Amazon_Instant_Video_5.json.gz",
        "reviews_Amazon_Instant_Video.json.gz",
        "ratings_Amazon_Instant_Video.csv",
    ),
    origin="jmcauley.ucsd.edu/data/amazon: the 5-core or ratings only of Amazon Instant Video",
    terms=TERMS,
    citation="R. He, J. McAuley: Ups and Downs. WWW 2016",
)
DATASETS = datasets_of(
    (
        VIDEO,
        *(_recipe("2018", category) for category in CATEGORIES_2018.split()),
        *(_recipe("2023", category) for category in CATEGORIES_2023.split()),
    )
)
