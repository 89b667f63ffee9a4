"""The cheap facts of a trace, and the guesses among them."""

from __future__ import annotations

import json

import pytest

from tracejudge.signals import Signals, compute_signals
from tracejudge.signals.facts import OVERLAP_CONTEXT_CHARS
from tracejudge.signals.language import LANGUAGE_CHARS, guess_language
from tracejudge.signals.refusal import REFUSAL_CHARS, is_refusal
from tracejudge.testing import make_trace

PASSAGE = "The plan Basic allows ten users per account."


def test_lengths_scores_and_counts_of_a_trace() -> None:
    trace = make_trace(
        query="How many users?",
        response="Ten users are the limit.",
        source_nodes=[
            {"node_id": "1", "text": "The limit is ten users.", "score": 0.9},
            {"node_id": "2", "text": None, "score": 0.1},
            {"node_id": "3", "text": "  \n", "score": None},
            {"node_id": "4", "text": "Ten are enough.", "score": -2.5},
        ],
    )
    signals = compute_signals(trace)
    assert (signals.query_chars, signals.response_chars, signals.context_chars) == (15, 24, 23 + 3 + 15)
    assert (signals.node_count, signals.text_node_count, signals.has_context) == (4, 2, True)
    assert (signals.retrieval_score_min, signals.retrieval_score_median, signals.retrieval_score_max) == (
        -2.5,
        0.1,
        0.9,
    )
    assert signals.lexical_overlap == 1.0
    assert signals.language == "en"
    assert not signals.refusal


def test_b20_without_text_there_is_no_context_and_no_overlap() -> None:
    for nodes in ([], [{"text": ""}], [{"text": "   "}], [{"node_id": "image", "text": None}]):
        signals = compute_signals(make_trace(response="I don't know.", source_nodes=nodes))
        assert not signals.has_context
        assert signals.lexical_overlap is None
        assert signals.refusal
        assert signals.node_count == len(nodes)


def test_a_trace_without_a_response_has_signals_too() -> None:
    signals = compute_signals(make_trace(response=None, source_nodes=[], query=""))
    assert signals == Signals()


def test_the_language_of_the_query_stands_in_for_that_of_a_short_response() -> None:
    trace = make_trace(query="Wie hoch ist die Grenze für den Tarif?", response="42")
    assert compute_signals(trace).language == "de"


def test_a_passage_of_two_megabytes_costs_no_more_than_its_start() -> None:
    filler = "word " * 400_000
    trace = make_trace(response="The limit is ten users.", source_nodes=[{"text": filler}, {"text": "limit ten users"}])
    signals = compute_signals(trace)
    assert signals.context_chars == len(filler) + 15
    assert signals.lexical_overlap == 0.0  # the second passage lies behind the first OVERLAP_CONTEXT_CHARS
    assert len(filler) > OVERLAP_CONTEXT_CHARS


@pytest.mark.parametrize(
    ("response", "passages", "overlap"),
    [
        ("Ten users per account", [PASSAGE], 1.0),
        ("Ten zebras", [PASSAGE], 0.5),
        ("zebras graze", [PASSAGE], 0.0),
        ("Ten users", ["ten", "users"], 1.0),
        ("“Ten users”—it’s per account…", [PASSAGE], 1.0),
        ("Ten users", [], None),
        ("Ten users", ["  "], None),
        ("it is", [PASSAGE], None),
        ("我们的办公室", [PASSAGE], None),
        ("Ten users", [PASSAGE, "我们的办公室"], None),
    ],
)
def test_lexical_overlap_is_the_share_of_content_words(
    response: str, passages: list[str], overlap: float | None
) -> None:
    trace = make_trace(response=response, source_nodes=[{"text": text} for text in passages])
    assert compute_signals(trace).lexical_overlap == overlap


def test_signals_are_ready_for_json() -> None:
    assert json.loads(json.dumps(compute_signals(make_trace()).as_dict()))["language"] == "en"
    assert next(iter(Signals().as_dict())) == "query_chars"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The limit of the plan is ten users."),
        ("de", "Die Grenze des Tarifs liegt bei zehn Nutzern und kann nicht erhöht werden."),
        ("fr", "La limite du forfait est de dix utilisateurs et ne peut pas être augmentée."),
        ("es", "El límite del plan es de diez usuarios y no se puede aumentar."),
        ("it", "Il limite del piano è di dieci utenti e non può essere aumentato."),
        ("pt", "O limite do plano é de dez usuários e não pode ser aumentado para uma conta."),
        ("nl", "De limiet van het abonnement is tien gebruikers en kan niet worden verhoogd."),
        ("sv", "Gränsen för planen är tio användare och det går inte att höja den."),
        ("pl", "Limit planu to dziesięciu użytkowników i nie może być zwiększony, jest dla konta."),
        ("cs", "Limit tarifu je deset uživatelů a nelze jej zvýšit, pokud není pro účet který se změní."),
        ("fi", "Suunnitelman raja on kymmenen käyttäjää ja se ei ole suurempi kuin tämä."),
        ("hu", "A csomag korlátja tíz felhasználó, és ez nem emelhető meg, hogy az is legyen."),
        ("tr", "Planın sınırı on kullanıcıdır ve bu sınır bir hesap için daha fazla olamaz."),
        ("vi", "Giới hạn của gói là mười người dùng và không thể tăng cho một tài khoản."),
        ("id", "Batas paket ini adalah sepuluh pengguna dan tidak dapat dinaikkan untuk akun itu."),
        ("ru", "Лимит тарифа составляет десять пользователей, и его нельзя увеличить для этого счёта."),
        ("uk", "Ліміт тарифу становить десять користувачів, і його не можна збільшити."),
        ("el", "Το όριο του προγράμματος είναι δέκα χρήστες."),
        ("he", "מגבלת התוכנית היא עשרה משתמשים"),
        ("ar", "الحد الأقصى للخطة هو عشرة مستخدمين"),
        ("fa", "سقف این طرح ده کاربر است و نمی‌توان آن را افزایش داد"),
        ("hi", "योजना की सीमा दस उपयोगकर्ता है"),
        ("th", "ขีดจำกัดของแผนคือผู้ใช้สิบคน"),
        ("zh", "该套餐的上限为十个用户，无法提高。"),
        ("ja", "このプランの上限は10ユーザーで、増やすことはできません。"),
        ("ko", "이 요금제의 한도는 사용자 10명이며 늘릴 수 없습니다."),
        # English that mentions others stays English.
        ("en", "The word for limit in Chinese is 上限 and it is used for plans."),
        # Unsure.
        ("", ""),
        ("", "42"),
        ("", "Gary Grimes"),
        ("", "🙂🙂 \u202e ‮"),
        ("", "SELECT user_id FROM accounts WHERE plan = 'gold'"),
    ],
)
def test_the_language_is_guessed_or_left_open(language: str, text: str) -> None:
    assert guess_language(text) == language


def test_only_the_start_of_a_text_decides_its_language() -> None:
    english = "The limit of the plan is ten users. " * (LANGUAGE_CHARS // 36 + 1)
    assert guess_language(english + "и в не на что " * 10_000) == "en"


@pytest.mark.parametrize(
    "text",
    [
        "I don't have information about that plan.",
        "I’m sorry, but I don’t have any specific information on this.",
        "Unable to answer based on given passages.",
        "I cannot answer based on the provided documents.",
        "The question can't be answered from the context.",
        "Unfortunately, the provided documents do not contain information about refunds.",
        "The context doesn't provide details.",
        "There is no information about this.",
        "I do not know.",
        "Sorry, I'm unable to\n   help with that request.",
        "Empty Response",
        "**N/A**",
        "Dazu habe ich leider keine Informationen.",
        "Ich kann diese Frage anhand der Dokumente nicht beantworten.",
        "Je n'ai pas d'informations à ce sujet.",
        "Je ne peux pas répondre à cette question.",
        "No tengo información sobre ese plan.",
        "Lo siento, no puedo responder a esa pregunta.",
        "Non ho informazioni su questo piano.",
        "Não tenho informações sobre esse plano.",
        "Daar heb ik geen informatie over.",
        "У меня нет информации об этом тарифе.",
        "我无法回答这个问题。",
        "申し訳ありませんが、お答えできません。",
    ],
)
def test_a_response_that_declines_is_a_refusal(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The limit of the plan is ten users.",
        "For more information about the plan see the documentation.",
        "You can find the information on the billing page. It cannot be changed later.",
        "None of the plans has a limit.",
        "Die Informationen finden Sie im Konto.",
        "Toute l'information est dans le contrat.",
        "The plan has ten users. " * (REFUSAL_CHARS // 20) + "I don't know more.",
    ],
)
def test_a_response_that_answers_is_none(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize(
    "response",
    [
        "Je n'ai pas trouvé d'information à ce sujet.",
        "Le document ne contient aucune réponse.",
        "Les textes ne fournissent pas cela.",
        "Le passage ne mentionne pas ce point.",
        "Cela ne donne pas la réponse.",
        "Nous ne disposons pas de ces données.",
        "Je ne peux pas répondre.",
        "Je ne puis vous aider.",
        "Je ne suis pas en mesure de répondre.",
        "Je ne sais pas.",
        "Il n'y a aucune information.",
        "Il n'y a pas assez d'informations.",
        "Pas suffisamment d'information.",
    ],
)
def test_each_french_phrase_of_a_refusal_is_found(response: str) -> None:
    assert is_refusal(response)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The capital of Japan is 東京, and it is known for the towers.", "en"),
        ("Die Stadt heißt auf Russisch Москва, und der Fluss ist nach der Stadt benannt.", "de"),
        ("API は便利なインターフェースです", "ja"),
        ("Москва это столица и она на реке: the capital", "ru"),
    ],
)
def test_a_few_letters_of_another_script_do_not_decide_the_language(text: str, language: str) -> None:
    assert guess_language(text) == language
